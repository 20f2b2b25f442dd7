package installed

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// processor is the CPU's model and, where it is ARM's, those of its features with which libraries
// may compute otherwise, in the form that Linux has.
func processor() string {
	name, _ := unix.Sysctl("machdep.cpu.brand_string")
	var has []string
	for feature, word := range map[string]string{
		"BF16": "bf16", "I8MM": "i8mm", "SME": "sme", "SME2": "sme2",
	} {
		if on, err := unix.SysctlUint32("hw.optional.arm.FEAT_" + feature); err == nil && on != 0 {
			has = append(has, word)
		}
	}
	slices.Sort(has)
	return "model name : " + name + "\nFeatures : " + strings.Join(has, " ") + "\n"
}
