package emulated

// Pid is the number of the process that stands for the device.
func (d *Device) Pid() int { return d.process.Process.Pid }
