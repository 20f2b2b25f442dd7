package gpu

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lockstep/gpu/internal/driver"
)

// TestStructs: what Go writes for the kernels and reads of them has the fields of launch.h, by
// name, type and length, in their order. The sizes that a module tells are the same if fields
// change places.
func TestStructs(t *testing.T) {
	data, err := os.ReadFile("internal/kernels/launch.h")
	if err != nil {
		t.Fatal(err)
	}
	header := regexp.MustCompile(`//.*`).ReplaceAllString(string(data), "")
	numbers := map[string]string{}
	for _, m := range regexp.MustCompile(`\b(k\w+) = (\d+)\b`).FindAllStringSubmatch(header, -1) {
		numbers[m[1]] = m[2]
	}
	structs := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)\nstruct (\w+) \{\n(.*?)\n\};`).FindAllStringSubmatch(
		header, -1) {
		structs[m[1]] = m[2]
	}
	if memory := fieldsOf(structs["Memory"], numbers); len(memory) != len(memoryBlock{}) ||
		strings.Count(strings.Join(memory, " "), " float64") != len(memory) {
		t.Errorf("Memory has %q, Go has %T", memory, memoryBlock{})
	}
	delete(structs, "Memory")
	for _, block := range []any{
		launchBlock{}, routeBlock{}, seenBlock{}, layerBlock{}, actorBlock{}, jobBlock{},
		statusBlock{}, placeBlock{}, observingBlock{}, traceBlock{},
	} {
		of := reflect.TypeOf(block)
		name := map[string]string{"traceBlock": "TraceStep"}[of.Name()]
		if name == "" {
			name = strings.ToUpper(of.Name()[:1]) + strings.TrimSuffix(of.Name()[1:], "Block")
		}
		want := fieldsOf(structs[name], numbers)
		if len(want) == 0 {
			t.Errorf("launch.h has no struct %s", name)
		}
		delete(structs, name)
		for i := range max(of.NumField(), len(want)) {
			got, wanted := "nothing", "nothing"
			if i < of.NumField() {
				got = fieldOf(of.Field(i))
			}
			if i < len(want) {
				wanted = want[i]
			}
			if got != wanted {
				t.Errorf("%s, field %d: %s in Go, %s in launch.h", name, i, got, wanted)
				break
			}
		}
	}
	for name := range structs {
		t.Errorf("launch.h has a struct %s, which no block here is", name)
	}
}

// fieldsOf are the fields of a struct of C++, each as its name in small letters and its type in Go.
func fieldsOf(body string, numbers map[string]string) (all []string) {
	types := map[string]string{
		"int64_t": "int64", "uint64_t": "uint64", "double": "float64", "float": "float32",
	}
	for line := range strings.SplitSeq(body, ";") {
		of, names, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "const "), " ")
		if !ok {
			continue
		}
		kind := types[of]
		if kind == "" {
			kind = strings.ToLower(of)
		}
		for name := range strings.SplitSeq(names, ",") {
			name, length, array := strings.Cut(strings.TrimSpace(name), "[")
			own := kind
			if array {
				n := 1
				for factor := range strings.SplitSeq(strings.TrimSuffix(length, "]"), "*") {
					factor = strings.TrimSpace(factor)
					if known := numbers[factor]; known != "" {
						factor = known
					}
					x, _ := strconv.Atoi(factor)
					n *= x
				}
				own = fmt.Sprintf("[%d]%s", n, kind)
			}
			if strings.HasPrefix(name, "*") {
				name, own = name[1:], "pointer"
			}
			all = append(all, strings.ToLower(strings.ReplaceAll(name, "_", ""))+" "+own)
		}
	}
	return all
}

// fieldOf is the same of a field in Go.
func fieldOf(f reflect.StructField) string {
	kind := f.Type.String()
	switch {
	case f.Type == reflect.TypeFor[driver.Pointer]():
		kind = "pointer"
	case strings.HasSuffix(kind, "Block"):
		kind = regexp.MustCompile(`gpu\.(\w+)Block`).ReplaceAllString(kind, "$1")
	}
	return strings.ToLower(f.Name) + " " + kind
}
