package golden

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep"
	"lockstep/internal/npz"
)

// FormatVersion is the version of the format, which generate.py writes.
const FormatVersion = 1

// Recording is what one rollout computed. T is the number of steps; step
// ContextLength + j is at index j.
type Recording struct {
	Route string

	Tokens     []int64   // (T, 20)
	States     []float32 // (T, 20, 4)
	LogitsHash []uint64  // (T), see Hash
	ProbsHash  []uint64  // (T)
	CDFHash    []uint64  // (T)
	Draw       []float64 // (T)
	Sample     []int64   // (T)
	Prediction []float64 // (T), m/s²
	Lataccel   []float64 // (T), m/s²
	Action     []float64 // (T)

	FullSteps []int64   // (F), the steps whose logits and probabilities follow
	Logits    []float32 // (F, 1024)
	Probs     []float32 // (F, 1024)

	Costs     lockstep.Costs
	RouteHash [5]uint64 // see HashRoute
}

// Steps is the number of steps recorded.
func (r *Recording) Steps() int { return len(r.Sample) }

// Hash is the first 8 bytes of the SHA-256 of the little-endian array, as a
// big-endian number.
func Hash[T float32 | float64](a []T) uint64 {
	data, _ := binary.Append(make([]byte, 0, 8*len(a)), binary.LittleEndian, a)
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:])
}

// RouteColumns names the columns of HashRoute.
func RouteColumns() [5]string {
	return [5]string{"roll_lataccel", "v_ego", "a_ego", "target_lataccel", "steer_command"}
}

// HashRoute hashes a route's columns; of the steer command only the rows that
// every route has, before ControlStartIdx.
func HashRoute(r *lockstep.Route) [5]uint64 {
	return [5]uint64{
		Hash(r.RollLataccel), Hash(r.VEgo), Hash(r.AEgo), Hash(r.TargetLataccel),
		Hash(r.SteerCommand[:lockstep.ControlStartIdx]),
	}
}

// ReadFile reads the recordings of an archive, in the order of their routes.
func ReadFile(path string) ([]*Recording, error) {
	arrays, err := npz.ReadFile(path)
	if err != nil {
		return nil, err
	}
	recordings, err := decode(arrays)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return recordings, nil
}

func decode(arrays map[string]npz.Array) ([]*Recording, error) {
	format, err := get[int64](arrays, "format", 1)
	if err != nil {
		return nil, errors.New("not a recording: it has no array named format")
	}
	if format[0] != FormatVersion {
		return nil, fmt.Errorf("format version %d, want %d", format[0], FormatVersion)
	}
	routes := map[string]bool{}
	for name := range arrays {
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			routes[name[:i]] = true
		}
	}
	var recordings []*Recording
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		r, err := decodeRoute(arrays, route)
		if err != nil {
			return nil, err
		}
		recordings = append(recordings, r)
	}
	return recordings, nil
}

func decodeRoute(arrays map[string]npz.Array, route string) (*Recording, error) {
	prefix := route + "/"
	t, f := length(arrays[prefix+"sample"]), length(arrays[prefix+"full_steps"])
	d := decoder{arrays: arrays, prefix: prefix}
	r := &Recording{
		Route:      route,
		Tokens:     take[int64](&d, "tokens", t, lockstep.ContextLength),
		States:     take[float32](&d, "states", t, lockstep.ContextLength, 4),
		LogitsHash: take[uint64](&d, "logits_hash", t),
		ProbsHash:  take[uint64](&d, "probs_hash", t),
		CDFHash:    take[uint64](&d, "cdf_hash", t),
		FullSteps:  take[int64](&d, "full_steps", f),
		Logits:     take[float32](&d, "logits", f, lockstep.VocabSize),
		Probs:      take[float32](&d, "probs", f, lockstep.VocabSize),
		Draw:       take[float64](&d, "draw", t),
		Sample:     take[int64](&d, "sample", t),
		Prediction: take[float64](&d, "prediction", t),
		Lataccel:   take[float64](&d, "lataccel", t),
		Action:     take[float64](&d, "action", t),
	}
	costs := take[float64](&d, "costs", 3)
	hashes := take[uint64](&d, "route_hash", len(r.RouteHash))
	if d.err != nil {
		return nil, d.err
	}
	r.Costs = lockstep.Costs{Lataccel: costs[0], Jerk: costs[1], Total: costs[2]}
	copy(r.RouteHash[:], hashes)
	return r, r.checkFull()
}

// checkFull compares the hashes of the logits and probabilities that were recorded in full
// with the recorded hashes, because comparisons look at the hashes first, and at the numbers
// only where the hashes differ.
func (r *Recording) checkFull() error {
	last := int64(lockstep.ContextLength - 1)
	for _, step := range r.FullSteps {
		at := step - lockstep.ContextLength
		if step <= last || at >= int64(r.Steps()) {
			return fmt.Errorf(
				"array %.60q: step %d follows step %d: want steps that rise, and end before %d",
				r.Route+"/full_steps", step, last, lockstep.ContextLength+r.Steps(),
			)
		}
		last = step
		logits, probs, _ := r.Full(int(step))
		if Hash(logits) != r.LogitsHash[at] || Hash(probs) != r.ProbsHash[at] {
			return fmt.Errorf(
				"route %.60q, step %d: its logits or probs do not have the hash that was recorded",
				r.Route, step,
			)
		}
	}
	return nil
}

func length(a npz.Array) int {
	if len(a.Shape) == 0 {
		return 0
	}
	return a.Shape[0]
}

// decoder takes arrays out of an archive and keeps the first error.
type decoder struct {
	arrays map[string]npz.Array
	prefix string
	err    error
}

func take[T npz.Number](d *decoder, name string, shape ...int) []T {
	if d.err != nil {
		return nil
	}
	var a []T
	a, d.err = get[T](d.arrays, d.prefix+name, shape...)
	return a
}

func get[T npz.Number](arrays map[string]npz.Array, name string, shape ...int) ([]T, error) {
	a, ok := arrays[name]
	if !ok {
		return nil, fmt.Errorf("no array %.60q", name)
	}
	if !slices.Equal(a.Shape, shape) {
		return nil, fmt.Errorf(
			"array %.60q: shape %.100s, want %v", name, fmt.Sprint(a.Shape), shape,
		)
	}
	return npz.Elements[T](a)
}

// Full returns the recorded logits and probabilities of a step, if it has them.
func (r *Recording) Full(step int) (logits, probs []float32, ok bool) {
	i, ok := slices.BinarySearch(r.FullSteps, int64(step))
	if !ok {
		return nil, nil, false
	}
	from, to := i*lockstep.VocabSize, (i+1)*lockstep.VocabSize
	return r.Logits[from:to], r.Probs[from:to], true
}
