package pycontroller

import (
	"os"
	"path"
	"slices"
	"strings"
)

// passedOn are the variables of the environment that a controller's process is given, as patterns:
// what Python and its libraries need to start and to be told how many threads to use. What else
// is there, such as keys to other machines, is nobody's business in a controller.
var passedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LANGUAGE", "LC_*", "TZ",
	"LD_LIBRARY_PATH", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_VISIBLE_DEVICES",
	"OMP_*", "OPENBLAS_*", "MKL_*", "NPY_*",
	"SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", // on Windows
}

// environment is what a controller's process is given.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.ContainsFunc(passedOn, func(pattern string) bool {
			matched, _ := path.Match(pattern, name)
			return matched
		})
	})
}
