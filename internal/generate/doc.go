// Package generate makes routes in the format of the challenge's CSV files, for
// use where the challenge's own are not at hand.
//
// A route is a recording of a simulated drive: a car, the one of
// golden/default_model/simulation.py, is steered along a winding, banked road at
// changing speed, and what it did is the target. So the recorded steer commands
// of the first rows belong to the recorded lateral accelerations, as in a real
// route.
//
// Equal seeds give equal bytes on every platform: all arithmetic is +, -, *, /
// and square root in float64, products are rounded before they are added, and
// random numbers come from math/rand/v2's ChaCha8. Route k of a seed does not
// depend on how many routes are made.
package generate
