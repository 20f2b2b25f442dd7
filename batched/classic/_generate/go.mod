module lockstep/batched/classic/generate

go 1.26.0

require (
	github.com/mmcloughlin/avo v0.5.0
	lockstep/internal/arm64 v0.0.0
)

require (
	golang.org/x/mod v0.6.0 // indirect
	golang.org/x/sys v0.1.0 // indirect
	golang.org/x/tools v0.2.0 // indirect
)

replace lockstep/internal/arm64 => ../../../internal/_arm64
