//go:build !darwin

package installed

import (
	"os"
	"strings"
)

// processor is the CPU's model and its features, as Linux knows them.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	var lines []string
	for line := range strings.Lines(string(info)) {
		name, _, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name", "flags", "Features", "CPU part", "CPU implementer":
			lines = append(lines, line)
		case "":
			return strings.Join(lines, "")
		}
	}
	return strings.Join(lines, "")
}
