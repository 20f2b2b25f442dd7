//go:build cgo

package native

import "lockstep/gpu"

// stats says what a simulator has done so far, and how long that took.
func stats(_ *task, s *simulator, _ nothing, _ []byte) (any, error) {
	f := s.counts.Of(s.Implementation)
	if g, ok := s.Implementation.(*gpu.Simulator); ok {
		device := g.Stats()
		f.OnDevice(device, device.Host())
	}
	return f, nil
}
