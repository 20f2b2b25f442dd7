// Command stub writes C that stands for CUDA's driver library where a program is
// linked, from the declarations in the preprocessed cuda.h on its standard input.
//
// With -kind loader each function finds its counterpart in libcuda.so.1 when it is
// first called, so that a program starts where there is no driver, and says so
// when it is asked for a GPU. With -kind rest each is a weak function that answers
// an error, for what a stand-in driver does not have.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	kind := flag.String("kind", "loader", "loader or rest")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *kind); err != nil {
		fmt.Fprintln(os.Stderr, "stub:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, kind string) error {
	header, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(out)
	if err := write(b, string(header), kind); err != nil {
		return err
	}
	return b.Flush()
}

// function is a declaration.
type function struct{ name, parameters, arguments string }

var (
	declaration = regexp.MustCompile(`\bCUresult\s+(cu\w+)\s*\(([^;{}]*)\)\s*;`)
	lastName    = regexp.MustCompile(`(\w+)\s*(?:\[\s*\w*\s*\])?$`)
	space       = regexp.MustCompile(`\s+`)
)

// functions are those that a preprocessed header declares, each once.
func functions(header string) ([]function, error) {
	var all []function
	seen := map[string]bool{}
	for _, m := range declaration.FindAllStringSubmatch(header, -1) {
		f := function{name: m[1], parameters: strings.TrimSpace(space.ReplaceAllString(m[2], " "))}
		if seen[f.name] {
			continue
		}
		seen[f.name] = true
		if f.parameters != "void" && f.parameters != "" {
			var names []string
			for _, p := range strings.Split(f.parameters, ",") {
				n := lastName.FindStringSubmatch(strings.TrimSpace(p))
				if n == nil {
					return nil, fmt.Errorf("%s: parameter %q has no name", f.name, p)
				}
				names = append(names, n[1])
			}
			f.arguments = strings.Join(names, ", ")
		}
		all = append(all, f)
	}
	if !slices.ContainsFunc(all, func(f function) bool { return f.name == "cuInit" }) {
		return nil, fmt.Errorf(
			"the header does not declare cuInit; %d functions were found", len(all),
		)
	}
	return all, nil
}

const loader = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include <cuda.h>

static void *library;
static void open_library(void) { library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

static void *find(const char *name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_library);
  return library == NULL ? NULL : dlsym(library, name);
}

/* missing is the answer where there is no driver, or it lacks the function. */
static CUresult missing(void) {
  return library == NULL ? CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
                         : CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
}

/* The first call is that of gorgonia.org/cu before main, which ends the process on
   any error. It succeeds; the next one tells the truth. */
CUresult cuInit(unsigned int Flags) {
  static int calls;
  CUresult (*f)(unsigned int) = (CUresult (*)(unsigned int))find("cuInit");
  CUresult result = f == NULL ? missing() : f(Flags);
  return __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) == 0 ? CUDA_SUCCESS : result;
}
`

const rest = `#include <cuda.h>
`

func write(w io.Writer, header, kind string) error {
	all, err := functions(header)
	if err != nil {
		return err
	}
	switch kind {
	case "loader":
		fmt.Fprint(w, loader)
		for _, f := range all {
			if f.name == "cuInit" {
				continue
			}
			fmt.Fprintf(w, `
CUresult %[1]s(%[2]s) {
  static CUresult (*lockstep_known)(%[2]s);
  CUresult (*lockstep_call)(%[2]s) = __atomic_load_n(&lockstep_known, __ATOMIC_RELAXED);
  if (lockstep_call == NULL) {
    lockstep_call = (CUresult (*)(%[2]s))find("%[1]s");
    if (lockstep_call == NULL) return missing();
    __atomic_store_n(&lockstep_known, lockstep_call, __ATOMIC_RELAXED);
  }
  return lockstep_call(%[3]s);
}
`, f.name, f.parameters, f.arguments)
		}
	case "rest":
		fmt.Fprint(w, rest)
		for _, f := range all {
			fmt.Fprintf(
				w, "\n__attribute__((weak)) CUresult %s(%s) { return CUDA_ERROR_NOT_SUPPORTED; }\n",
				f.name, f.parameters,
			)
		}
	default:
		return fmt.Errorf("no kind %q", kind)
	}
	return nil
}
