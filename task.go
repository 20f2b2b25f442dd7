package lockstep

// Constants of the task, as in the Python program.
const (
	FPS             = 10  // steps per second
	ContextLength   = 20  // steps the network sees; the first simulated step
	ControlStartIdx = 100 // first step that the controller drives and that costs
	CostEndIdx      = 500 // one past the last step that costs
	VocabSize       = 1024

	LataccelMin = -5.0 // m/s², first bin
	LataccelMax = 5.0  // m/s², last bin
	SteerMin    = -2.0
	SteerMax    = 2.0
	MaxAccDelta = 0.5 // m/s² by which lataccel may change in one step

	Temperature = 0.8
	DelT        = 0.1  // s
	AccG        = 9.81 // m/s²

	LatAccelCostMultiplier = 50.0

	// FuturePlanSteps bounds the plan: rows i+1 to i+FuturePlanSteps-1, so that
	// at step i a controller sees at most 49 values.
	FuturePlanSteps = FPS * 5

	// MinRows is the length of the shortest route that has a cost at all.
	MinRows = ControlStartIdx + 1
)

// State is the vehicle's state at one step.
type State struct {
	RollLataccel float64 // m/s², lateral acceleration due to road roll
	VEgo         float64 // m/s, forward speed
	AEgo         float64 // m/s², forward acceleration
}

// FuturePlan is what the route holds for the next 5 seconds, from the step
// after the current one. Near the end of a route it is shorter, and empty at
// the last step. The slices alias the route and must not be written to.
type FuturePlan struct {
	Lataccel     []float64 // m/s², target
	RollLataccel []float64 // m/s²
	VEgo         []float64 // m/s
	AEgo         []float64 // m/s²
}

// A Controller steers one route. It is called once for every step from
// ContextLength on, in order; its answers count from ControlStartIdx on
// (before, the recorded steer command is applied, and the call only lets the
// controller's own state evolve).
type Controller interface {
	// Update returns the steer command for this step; the simulator clips it to
	// [SteerMin, SteerMax]. currentLataccel is the lateral acceleration after
	// the previous step.
	Update(targetLataccel, currentLataccel float64, state State, plan FuturePlan) float64
}
