// Package hardware reads what was run on real GPUs: a folder for each, which `make gpu-first`
// writes (run.sh), with the events of `go test -json` of each step. The hashes of the kernels'
// sources and of what was compiled of them tell whether later kernels still have that evidence.
package hardware

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Evidence is what was run on one GPU, where all of it passed.
type Evidence struct {
	Device, Driver string
	Kernels        string // hash of their sources: see kernelhash.Sources
	Module         string // of what was compiled of them: see module.Hash
	Challenge      string // the answer to these kernels' challenge: see Answer
	Recordings     int    // of the Python program that were reproduced, in a size of block each
}

// proofs are the steps without which there is no evidence, with what must have passed in each:
// the whole of the two test programs, and the rollout that compute-sanitizer sees.
var proofs = map[string]string{
	"cuda": "TestMemory", "gpu": "TestChallenge", "memcheck": "TestShort",
	"racecheck": "TestShort", "initcheck": "TestShort", "synccheck": "TestShort",
}

// standins are devices that are none.
var standins = []string{"stand-in", "emulated", "ptx", "sass"}

// Read reads the evidence in a folder, by the names of its folders, and refuses what is none.
func Read(folder fs.FS) (map[string]*Evidence, error) {
	files, err := fs.Glob(folder, "*/*.json")
	if err != nil {
		return nil, err
	}
	all := map[string]*Evidence{}
	for _, file := range files {
		name := path.Dir(file)
		if all[name] != nil {
			continue
		}
		gpu, err := fs.Sub(folder, name)
		if err != nil {
			return nil, err
		}
		if all[name], err = read(gpu); err != nil {
			return nil, fmt.Errorf("%s/%w: run `make gpu-first` there again", name, err)
		}
	}
	return all, nil
}

// read reads one GPU's folder.
func read(folder fs.FS) (*Evidence, error) {
	files, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	steps := map[string]*step{}
	for _, file := range files {
		if steps[strings.TrimSuffix(file, ".json")], err = readStep(folder, file); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(proofs)) {
		switch s := steps[name]; {
		case s == nil:
			return nil, fmt.Errorf("%s.json: it is not there", name)
		case !slices.Contains(s.passed, proofs[name]):
			return nil, fmt.Errorf("%s.json: %s did not pass", name, proofs[name])
		case s.passed[len(s.passed)-1] != "": // the program, at its end
			return nil, fmt.Errorf("%s.json: it did not come to its end", name)
		}
	}
	gpu := steps["gpu"]
	for _, key := range []string{"device", "driver", "kernels", "module", "challenge"} {
		if gpu.says[key] == "" {
			return nil, fmt.Errorf("gpu.json: it does not say the %s", key)
		}
	}
	e := &Evidence{
		Device: gpu.says["device"], Driver: gpu.says["driver"], Kernels: gpu.says["kernels"],
		Module: gpu.says["module"], Challenge: gpu.says["challenge"],
	}
	for _, test := range gpu.passed {
		if strings.HasPrefix(test, "TestGoldens/") && strings.Count(test, "/") == 3 {
			e.Recordings++
		}
	}
	if slices.Contains(standins, strings.ToLower(e.Device)) {
		return nil, fmt.Errorf("gpu.json: device %s is not a GPU", e.Device)
	}
	if e.Recordings == 0 {
		return nil, errors.New("gpu.json: no recording was reproduced")
	}
	return e, nil
}

// A step is one run of a program.
type step struct {
	passed []string          // tests, and the program itself without a name
	says   map[string]string // what tests say with T.Attr
}

// readStep reads a step, and refuses one in which something failed.
func readStep(folder fs.FS, file string) (*step, error) {
	f, err := folder.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, lines := &step{says: map[string]string{}}, bufio.NewScanner(f)
	n := 1
	for ; lines.Scan(); n++ {
		var event struct{ Action, Test, Key, Value string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("%s:%d: not an event of go test -json: %w", file, n, err)
		}
		switch event.Action {
		case "fail":
			return nil, fmt.Errorf("%s:%d: %s failed", file, n, cmp.Or(event.Test, "the program"))
		case "pass":
			s.passed = append(s.passed, event.Test)
		case "attr":
			s.says[event.Key] = event.Value
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, n, err)
	}
	return s, nil
}
