//go:build !darwin

package installed

import "os"

// processor is the first CPU's. It is empty where there is no /proc/cpuinfo.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	return firstCPU(string(info))
}
