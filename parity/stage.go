package parity

// Stage is one value that every implementation computes at every step. Stages
// are ordered as they are computed, so that the first one that differs at a step
// is where a fault shows.
type Stage int

const (
	Action     Stage = iota // steer command after clipping, float64
	Tokens                  // encoded past lataccels, 20 int64
	States                  // network input, 20×4 float32
	Logits                  // last position, 1024 float32
	Probs                   // 1024 float32
	CDF                     // 1024 float64
	Draw                    // uniform variate, float64
	Sample                  // token, int
	Prediction              // the token's bin, float64
	Lataccel                // after the step, float64
	Cost                    // the three costs, float64
)

var stageNames = [...]string{"action", "tokens", "states", "logits", "probs", "cdf", "draw", "sample", "prediction", "lataccel", "costs"}

func (s Stage) String() string { return stageNames[s] }
