package fuzz

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool(
	"update", false,
	"look for inputs that reach all edges, and write those missing to testdata/fuzz",
)

// corpora are the properties whose inputs are random bits, and the edges that the
// committed inputs must reach. Of a property that stops for want of bits `go
// test` says nothing, so that inputs could go stale without a sign.
var corpora map[string]corpus

type corpus struct {
	p     property
	edges []string
}

func init() {
	corpora = map[string]corpus{
		"FuzzTokenizer": {
			tokenizer,
			[]string{
				"NaN", "infinite", "beyond the ends", "a bin", "just above a bin",
				"just below a bin",
			},
		},
		"FuzzStep": {
			step,
			[]string{
				"certain", "first or last token", "clipped", "not clipped",
				"network in the warm-up", "failed", "finished",
			},
		},
		"FuzzDraws": {
			draws,
			[]string{
				"network in the warm-up", "route without draws", "route with too few draws",
				"route with others' draws", "teacher", "several jobs",
			},
		},
		"FuzzBatch": {
			batch,
			[]string{"a job twice", "one fails among others", "more than three different jobs"},
		},
		"FuzzAgreement": {agreement, []string{
			"network in the warm-up", "teacher", "failed", "failed after step 100", "finished",
			"scale 0", "scale 0.001", "scale 0.02", "scale 0.1", "scale 0.5", "scale 3",
		}},
		"FuzzShortcuts": {shortcuts, []string{
			"failed",
			"finished",
			"shortcuts 000",
			"shortcuts 001",
			"shortcuts 010",
			"shortcuts 011",
			"shortcuts 100",
			"shortcuts 101",
			"shortcuts 110",
			"shortcuts 111",
		}},
		"FuzzTeacher": {teacher, []string{"own", "another's", "failed", "draw on an edge"}},
		"FuzzLongRoutes": {
			longRoutes, []string{"shorter than the costs", "as long as the costs", "longer"},
		},
		"FuzzHistory": {
			anyHistory,
			[]string{
				"a larger batch",
				"one that fails",
				"a snapshot by way of bytes",
				"observed",
				"a fork under seeded noise",
				"sampled and expected values in one rollout",
			},
		},
		"FuzzPandas": {
			pandasNumber,
			[]string{"no number", "rounded more than once", "zero", "subnormal", "a number"},
		},
		"FuzzCSV": {
			routeFile, []string{"a route", "a bad field", "too short", "a column of integers"},
		},
	}
}

// TestUpdateCorpora looks for inputs, with -update.
func TestUpdateCorpora(t *testing.T) {
	if !*update {
		t.Skip("without -update there is nothing to do")
	}
	for name, c := range corpora {
		t.Run(name, func(t *testing.T) {
			search(t, filepath.Join("testdata", "fuzz", name), c.p, c.edges)
		})
	}
}

// TestReaderCorpora looks at the committed files for the readers: some of the
// whole ones and of the bombs, those that are small.
func TestReaderCorpora(t *testing.T) {
	for name, r := range map[string]reader{
		"FuzzReadRoute": routeReader, "FuzzReadModel": modelReader, "FuzzReadNPZ": npzReader,
		"FuzzReadGolden": goldenReader, "FuzzReadCache": cacheReader, "FuzzReadTrace": traceReader,
	} {
		dir := filepath.Join("testdata", "fuzz", name)
		if *update {
			old, _ := filepath.Glob(filepath.Join(dir, "file-*"))
			for _, path := range old {
				os.Remove(path)
			}
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			for i, data := range append(r.samples(), r.bombs()...) {
				if len(data) <= 16<<10 {
					writeInput(t, filepath.Join(dir, fmt.Sprintf("file-%02d", i)), data)
				}
			}
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		whole := 0
		for _, file := range files {
			if r.read(readInput(t, filepath.Join(dir, file.Name())), t.Errorf) == nil {
				whole++
			}
		}
		if whole == 0 {
			t.Errorf(
				"none of the %d files in %s is whole: go test ./fuzz -run Corpora -update",
				len(files), dir,
			)
		}
	}
}

// edgesOf runs a property on an input, and tells whether that was enough.
func edgesOf(t *testing.T, name string, p property, input []byte) (edges []string, finished bool) {
	t.Run(name, func(t *testing.T) {
		rapid.MakeFuzz(func(t *rapid.T) {
			p(t, func(edge string) {
				if !slices.Contains(edges, edge) {
					edges = append(edges, edge)
				}
			})
			finished = true
		})(t, input)
	})
	return edges, finished
}

// readInput reads an input in the form in which `go test` keeps it.
func readInput(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(string(data), "go test fuzz v1\n[]byte(")
	input, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(text), ")"))
	if !ok || err != nil {
		t.Fatalf("%s: not an input of one slice of bytes (%v)", path, err)
	}
	return []byte(input)
}

func writeInput(t *testing.T, path string, input []byte) {
	t.Helper()
	if err := os.WriteFile(path, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%+q)\n", input),
		0o666); err != nil {
		t.Fatal(err)
	}
}

// search tries random inputs, and keeps each that reaches an edge that is still
// missing, as short as it can be.
func search(t *testing.T, dir string, p property, want []string) {
	reached := map[string]bool{}
	old, _ := filepath.Glob(filepath.Join(dir, "edges-*"))
	for _, path := range old {
		os.Remove(path)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32s", filepath.Base(dir)))))
	missing := func(edges []string) (n int) {
		for _, edge := range edges {
			if slices.Contains(want, edge) && !reached[edge] {
				n++
			}
		}
		return n
	}
	kept := 0
	for try := 0; try < 3000 && missing(want) > 0; try++ {
		input := make([]byte, 1<<16)
		random.Read(input)
		edges, finished := edgesOf(t, "try", p, input)
		n := missing(edges)
		if !finished || n == 0 {
			continue
		}
		low, high := 0, len(input)/8 // words that are too few, and enough
		for low+1 < high {
			middle := (low + high) / 2
			if e, finished := edgesOf(t, "cut", p, input[:8*middle]); finished && missing(e) == n {
				high = middle
			} else {
				low = middle
			}
		}
		input = input[:8*high]
		writeInput(t, filepath.Join(dir, fmt.Sprintf("edges-%02d", kept)), input)
		kept++
		for _, edge := range edges {
			reached[edge] = true
		}
	}
	if missing(want) > 0 {
		t.Errorf("found no inputs for %d of %q", missing(want), want)
	}
}
