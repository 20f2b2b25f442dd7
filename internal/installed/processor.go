//go:build !darwin

package installed

import (
	"os"
	"strings"
)

// processor is the model and the features of the first CPU, as /proc/cpuinfo has them: answers of
// another CPU are not taken from the cache. It is empty where there is no such file.
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
