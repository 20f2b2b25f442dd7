// Package branches is the table of the specification's branches and boundary cases: each
// has a name, by which a comparison says whether the drives that it compared went there.
// The specifications are packages reference and reference/classic; a branch that is added
// to them gets a line here. What counts them are the adapters of the two families.
package branches

import (
	"slices"

	"lockstep/parity"
)

// Of tinyphysics: places in the table TinyPhysics.
const (
	ShortestRoute = iota
	RouteEndsEarly
	RouteGoesOn
	NaNRoll
	NaNSpeed
	NaNAcceleration
	NaNTarget
	NaNCommand
	Warmup
	FirstControlled
	RecordedHigh
	RecordedLow
	CommandHigh
	CommandLow
	CommandWithin
	WholePlan
	CutPlan
	NoPlan
	BeyondLastBin
	BeyondFirstBin
	LastBin
	FirstBin
	OnBin
	BetweenBins
	LastToken
	FirstToken
	GivenDraws
	DrawOnEdge
	DrawBelowEdge
	DrawAboveEdge
	PredictionHigh
	PredictionLow
	PredictionWithin
	ExpectedValue
	TaughtBefore
	TaughtAfter
	PolicyZero
	PolicyPID
	PolicyPIDFF
	SlowPIDFF
	EmptyBand
	NetworkMean
	NetworkSampled
	NetworkChange
	PolicyTable
	TableOver
	PolicyCode
	PolicyBatch
	Failure
)

// tinyPhysics is the table of comma.ai's simulator.
var tinyPhysics = []parity.Branch{
	ShortestRoute:   {Name: "shortest route", Is: "101 rows: one step costs, and no jerk"},
	RouteEndsEarly:  {Name: "route ends early", Is: "before step 500, up to which steps cost"},
	RouteGoesOn:     {Name: "route goes on", Is: "beyond step 500"},
	NaNRoll:         {Name: "NaN in roll", Is: "in the lateral acceleration by roll"},
	NaNSpeed:        {Name: "NaN in v ego", Is: "in the speed"},
	NaNAcceleration: {Name: "NaN in a ego", Is: "in the acceleration"},
	NaNTarget:       {Name: "NaN in target", Is: "in the target lataccel"},
	NaNCommand: {
		Name: "NaN in command",
		Is:   "in the recorded steer command, before step 100",
	},
	Warmup: {
		Name: "warm-up",
		Is:   "a step before 100, whose command and lataccel are the route's",
	},
	FirstControlled: {Name: "first controlled step", Is: "step 100"},
	RecordedHigh:    {Name: "recorded command above", Is: "more than 2 before step 100"},
	RecordedLow:     {Name: "recorded command below", Is: "less than -2 before step 100"},
	CommandHigh:     {Name: "command clipped above", Is: "2 from step 100 on"},
	CommandLow:      {Name: "command clipped below", Is: "-2 from step 100 on"},
	CommandWithin:   {Name: "command within", Is: "between -2 and 2 from step 100 on"},
	WholePlan: {
		Name: "whole plan",
		Is:   "49 rows, for a policy that reads it and acts, from step 100 on",
	},
	CutPlan:        {Name: "cut plan", Is: "by the end of the route, for a policy that reads it"},
	NoPlan:         {Name: "no plan", Is: "at the last step, for a policy that reads it"},
	BeyondLastBin:  {Name: "lataccel beyond the last bin", Is: "more than 5"},
	BeyondFirstBin: {Name: "lataccel beyond the first bin", Is: "less than -5"},
	LastBin: {
		Name: "last bin in the history",
		Is:   "token 1023 among those that the network sees",
	},
	FirstBin: {
		Name: "first bin in the history",
		Is:   "token 0 among those that the network sees",
	},
	OnBin:       {Name: "lataccel on a bin", Is: "a prediction, as it is"},
	BetweenBins: {Name: "lataccel between bins", Is: "given, clipped or expected"},
	LastToken:   {Name: "last token sampled", Is: "1023"},
	FirstToken:  {Name: "first token sampled", Is: "0"},
	GivenDraws:  {Name: "given draws", Is: "in place of the seed's"},
	DrawOnEdge: {
		Name: "draw on an edge",
		Is:   "equal to a value of the CDF: the token after it",
	},
	DrawBelowEdge: {Name: "draw 1 ulp below an edge", Is: "the token before it"},
	DrawAboveEdge: {Name: "draw 1 ulp above an edge", Is: "the token after it"},
	PredictionHigh: {
		Name: "lataccel clipped above",
		Is:   "0.5 more than the one before, from step 100 on",
	},
	PredictionLow: {
		Name: "lataccel clipped below",
		Is:   "0.5 less than the one before, from step 100 on",
	},
	PredictionWithin: {Name: "lataccel as predicted", Is: "from step 100 on"},
	ExpectedValue:    {Name: "expected value", Is: "in place of a sample"},
	TaughtBefore:     {Name: "teacher before step 100", Is: "its histories, in the warm-up"},
	TaughtAfter: {
		Name: "teacher from step 100 on",
		Is:   "its histories, where the policy steers",
	},
	PolicyZero:  {Name: "zero", Is: "the policy"},
	PolicyPID:   {Name: "pid", Is: "the policy"},
	PolicyPIDFF: {Name: "pidff", Is: "the policy"},
	SlowPIDFF:   {Name: "pidff below 5 m/s", Is: "where the speed's factor is bounded"},
	EmptyBand: {
		Name: "pidff with an empty band",
		Is:   "of the plan, near the end of a route",
	},
	NetworkMean:    {Name: "network", Is: "the mean of its distribution"},
	NetworkSampled: {Name: "network, sampled", Is: "from its distribution"},
	NetworkChange:  {Name: "network's change clipped", Is: "0.5 from one step to the next"},
	PolicyTable:    {Name: "table", Is: "the policy"},
	TableOver:      {Name: "table beyond its end", Is: "its last action, from step 500 on"},
	PolicyCode:     {Name: "code", Is: "a controller of the caller's"},
	PolicyBatch:    {Name: "batch controller", Is: "one that steers many routes"},
	Failure:        {Name: "failure", Is: "a rollout that ends with an error"},
}

// Of classic control: places in the table Classic.
const (
	Terminated = iota
	Truncated
	TerminatedAndTruncated
	ResetSameStep
	ResetNextStep
	NeverReset
	EveryAction
	CartPoleRight
	CartPoleLeft
	CartPoleTiltRight
	CartPoleTiltLeft
	CartPoleFallen
	MountainCarWall
	MountainCarSpeed
	MountainCarSlow
	ForceHigh
	ForceLow
	PendulumFast
	PendulumTurned
	AcrobotWrapped
	AcrobotFastFirst
	AcrobotFastSecond
)

// classic is the table of Gymnasium's classic control environments.
var classic = []parity.Branch{
	Terminated:             {Name: "terminated", Is: "an episode's end"},
	Truncated:              {Name: "truncated", Is: "by the bound on its steps"},
	TerminatedAndTruncated: {Name: "terminated and truncated", Is: "at one step"},
	ResetSameStep: {
		Name: "reset in the same step",
		Is:   "the last observation is hidden by a first one",
	},
	ResetNextStep:     {Name: "reset in the next step", Is: "whose action counts for nothing"},
	NeverReset:        {Name: "never reset", Is: "steps beyond an episode's end"},
	EveryAction:       {Name: "every action", Is: "each was chosen, or in a range both signs"},
	CartPoleRight:     {Name: "cart off the right", Is: "x beyond 2.4"},
	CartPoleLeft:      {Name: "cart off the left", Is: "x beyond -2.4"},
	CartPoleTiltRight: {Name: "pole tilts right", Is: "beyond 12°"},
	CartPoleTiltLeft:  {Name: "pole tilts left", Is: "beyond -12°"},
	CartPoleFallen: {
		Name: "pole has fallen",
		Is:   "beyond π/4, where sines and cosines are reduced",
	},
	MountainCarWall:  {Name: "car at the wall", Is: "at the least position, where it stops"},
	MountainCarSpeed: {Name: "car at its fastest", Is: "forward or back"},
	MountainCarSlow:  {Name: "car within its speeds", Is: "neither bound is active"},
	ForceHigh:        {Name: "action clipped above", Is: "more than the environment takes"},
	ForceLow:         {Name: "action clipped below", Is: "less than the environment takes"},
	PendulumFast:     {Name: "pendulum at its fastest", Is: "8 rad/s"},
	PendulumTurned: {
		Name: "pendulum beyond a turn",
		Is:   "an angle beyond π, which the cost wraps",
	},
	AcrobotWrapped:    {Name: "angle wrapped", Is: "from one end of ±π to the other"},
	AcrobotFastFirst:  {Name: "first link at its fastest", Is: "4π rad/s"},
	AcrobotFastSecond: {Name: "second link at its fastest", Is: "9π rad/s"},
}

// TinyPhysics is the table of comma.ai's simulator.
func TinyPhysics() []parity.Branch { return slices.Clone(tinyPhysics) }

// Classic is the table of Gymnasium's classic control environments.
func Classic() []parity.Branch { return slices.Clone(classic) }
