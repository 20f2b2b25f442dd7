package statement

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/golden/vectors"
)

// committed are what the search found of each operation.
func committed(t *testing.T) (tables []Alternatives) {
	t.Helper()
	data, err := os.ReadFile("../../alternatives.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &tables); err != nil {
		t.Fatal(err)
	}
	return tables
}

// TestSearch: a search begins with the vectors that are committed, and finds of the alternatives
// that each tells apart what is committed: what is drawn, what is right and each alternative are
// what they were. It tries a part of what the whole search does, which takes minutes. Those of
// roll-lataccel are others than what its search finds now.
func TestSearch(t *testing.T) {
	tables := committed(t)
	for i, o := range Operations() {
		if o.Name == "roll-lataccel" {
			continue
		}
		t.Run(o.Name, func(t *testing.T) {
			o.Tries, o.Fold = max(o.Tries/4000, 6), "" // folds are searched for behind these
			all, table := vectors.All(t, o.Name), tables[i]
			vs, tell, _ := o.Search(1)
			if len(vs) > len(all) {
				t.Fatalf("%d vectors are found, more than %d", len(vs), len(all))
			}
			archive := func(vs []vectors.Vector) string {
				data, err := vectors.Encode(map[string][]vectors.Vector{o.Name: vs})
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			if len(vs) == 0 || archive(vs) != archive(all[:len(vs)]) {
				t.Errorf("the first %d vectors that are found are others", len(vs))
			}
			for name, all := range table.Tell {
				want := slices.DeleteFunc(
					slices.Clone(all), func(k int) bool { return k >= len(vs) })
				if !slices.Equal(tell[name], want) {
					t.Errorf("%s is told apart by %v, want %v", name, tell[name], want)
				}
			}
		})
	}
}

// TestAlternatives: the results that are committed are those of the statement,
// and each alternative fails on just the vectors that are said to tell it apart.
func TestAlternatives(t *testing.T) {
	tables, operations := committed(t), Operations()
	if len(tables) != len(operations) {
		t.Fatalf(
			"alternatives.json has %d operations, want %d: run `go generate ./golden/vectors`",
			len(tables), len(operations),
		)
	}
	for i, o := range operations {
		t.Run(o.Name, func(t *testing.T) {
			vs, table := vectors.All(t, o.Name), tables[i]
			if table.Operation != o.Name || table.Line != o.Line || table.Vectors != len(vs) {
				t.Fatalf(
					"alternatives.json has %d vectors of %s, the archive %d of %s", table.Vectors,
					table.Operation, len(vs), o.Name,
				)
			}
			for k, v := range vs {
				if d := vectors.Difference(o.Right(&Arithmetic{}, v), v.Want); d != "" {
					t.Errorf("vector %d: %s", k, d)
				}
			}
			named := map[string]bool{}
			for _, a := range o.Alternatives(vs) {
				named[a.Name] = true
				if slices.Contains(table.Alike, a.Name) {
					continue
				}
				tells := table.Tell[a.Name]
				if len(tells) == 0 {
					t.Errorf(
						"alternative %q is not in alternatives.json: run `go generate "+
							"./golden/vectors`",
						a.Name,
					)
				}
				for _, k := range tells {
					if vectors.Difference(a.Run(vs[k]), vs[k].Want) == "" {
						t.Errorf("alternative %q has the right bits on vector %d", a.Name, k)
					}
				}
			}
			for name := range table.Tell {
				if !named[name] {
					t.Errorf("alternatives.json has the alternative %q, which is none", name)
				}
			}
		})
	}
}

// TestEveryFold: no other order of adding up eight sums, of all 135,134, has the
// right bits on all vectors.
func TestEveryFold(t *testing.T) {
	for _, o := range Operations() {
		folds := o.folds()
		if o.Fold != "" && len(folds) != 135134 {
			t.Errorf("%s: %d folds of eight sums, want 135134", o.Name, len(folds))
		}
		for _, v := range vectors.All(t, o.Name) {
			folds = o.survivors(v, folds)
		}
		if len(folds) > 0 {
			t.Errorf(
				"%s: %d folds have the right bits on all vectors, the first %v", o.Name, len(folds),
				folds[0],
			)
		}
	}
}

// TestLines: every line of the tables of ARITHMETIC.md that stand before its section on
// vectors has some, and every operation has its line. Policies' tables come after it: most
// of those are held by recorded vectors, and alternatives were not searched for.
func TestLines(t *testing.T) {
	data, err := os.ReadFile("../../../../ARITHMETIC.md")
	if err != nil {
		t.Fatal(err)
	}
	tables, _, found := strings.Cut(string(data), "\n## Vectors that tell\n")
	if !found {
		t.Fatal("ARITHMETIC.md has no section on vectors")
	}
	linesOf := func(text string) (lines []string) {
		row := regexp.MustCompile(`(?m)^\| ([^|]+) \|.*\|$`)
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			if m[1] != "operation" {
				lines = append(lines, m[1])
			}
		}
		return lines
	}
	has := map[string]bool{}
	for _, o := range Operations() {
		has[o.Line] = true
		if !slices.Contains(linesOf(string(data)), o.Line) {
			t.Errorf("%s: ARITHMETIC.md has no line %q", o.Name, o.Line)
		}
	}
	for _, line := range linesOf(tables) {
		if !has[line] {
			t.Errorf("ARITHMETIC.md's line %q has no vectors", line)
		}
	}
}

// holders are the packages whose tests hold an implementation to vectors, and
// the operations that each has.
var holders = map[string]string{
	"internal/f32": "product product-panels score attention-output layer-norm-1.30 " +
		"layer-norm-1.27 layer-norm-1.23 layer-norm-1.30arm " +
		"exp512 exp256 exp-numpy-U exp-numpy-F exp-numpy-C tanh gelu",
	"reference": "softmax-avx512 softmax-avx2 softmax-neon softmax-numpy-U softmax-numpy-F " +
		"softmax-numpy-C draws cdf choice decode encode clip sum sum32 costs pid pidff observation",
	"batched": "softmax-avx512 softmax-avx2 softmax-neon softmax-numpy-U softmax-numpy-F " +
		"softmax-numpy-C cdf choice decode encode clip sum sum32 costs pid",
	"batched/onnxruntime": "product product-panels score attention-output " +
		"layer-norm-1.30 layer-norm-1.27 layer-norm-1.23 layer-norm-1.30arm tanh softmax-avx512 " +
		"softmax-avx2 softmax-neon",
	"gpu/internal/kernels": "product product-panels score attention-output layer-norm-1.30 " +
		"layer-norm-1.27 layer-norm-1.23 exp512 exp256 exp-numpy-U exp-numpy-F tanh gelu " +
		"softmax-avx512 softmax-avx2 softmax-numpy-U softmax-numpy-F draws cdf choice decode " +
		"encode clip sum costs pid pidff observation",
	"internal/policies": "pidff observation",
	"internal/pandas":   "csv2 csvexact",
	"internal/libm":     "roll-lataccel",
	".":                 "seed draws",
}

// TestHolders: each of them does name its operations in its tests, and each
// operation has a holder.
func TestHolders(t *testing.T) {
	held := map[string]bool{}
	for folder, operations := range holders {
		files, err := filepath.Glob(filepath.Join("../../../..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
		}
		for _, operation := range strings.Fields(operations) {
			held[operation] = true
			if !strings.Contains(text.String(), `"`+operation+`"`) {
				t.Errorf(
					"the tests of %s do not name the operation %s: want vectors.Hold or "+
						"vectors.Map",
					folder, operation,
				)
			}
		}
	}
	for _, o := range Operations() {
		if !held[o.Name] {
			t.Errorf("no implementation is held to the vectors of %s", o.Name)
		}
	}
}

// TestTotals: each tree of eight sums has each of them once.
func TestTotals(t *testing.T) {
	var sums [8]float64
	for i := range sums {
		sums[i] = float64(int(1) << i)
	}
	for _, n := range foldsOf8() {
		if wide, narrow := total(n, sums[:]), total32(n, &sums); wide != 255 || narrow != 255 {
			t.Fatalf("%v of 1, 2, 4, …, 128 is %v, and %v in float32", n, wide, narrow)
		}
	}
}

// TestFMA holds fma to math/big, often where a second rounding shows.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	exact := func(x, y, z float32) float32 {
		product := new(big.Float).SetPrec(2000).Mul(
			big.NewFloat(float64(x)), big.NewFloat(float64(y)),
		)
		sum := product.Add(product, big.NewFloat(float64(z)))
		f, _ := sum.Float32()
		return f
	}
	for i := range 100_000 {
		x, y := float32(r.NormFloat64()), float32(r.NormFloat64())
		z := float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
		sign := float32(1 - 2*r.IntN(2))
		switch i % 6 {
		case 1: // a sum that lies midway but for the product's last digits
			x, y = math.Float32frombits(0x3f800000|r.Uint32()>>20),
				math.Float32frombits(r.Uint32()>>9|0x33000000)
		case 4: // a product that lies midway, an odd number of 25 digits, but for what is added
			m := uint32(3 + 2*r.IntN(1<<11))
			n := (1<<24+uint32(r.IntN(1<<24)))/m | 1
			x, y, z = float32(m), sign*float32(n), float32(math.Ldexp(r.NormFloat64(), -50))
		case 5: // less than half of a float64's last digit below midway, below the normal range
			k := float32(260 + r.IntN(100))
			x, y = (1<<23+k)*0x1p-98, sign*(1<<24-2*k)*0x1p-99
			z = sign * float32(1<<22+1+2*r.IntN(1<<20)) * 0x1p-149
		case 2: // below the normal range
			x, y, z = x*0x1p-70, y*0x1p-70, z*0x1p-120
		case 3: // cancelling
			z = -float32(float64(x) * float64(y))
		}
		if got, want := fma(x, y, z), exact(x, y, z); got != want {
			t.Fatalf("fma(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
	}
}

// TestEncode: what is written is read again.
func TestEncode(t *testing.T) {
	want := map[string][]vectors.Vector{}
	for _, o := range Operations() {
		want[o.Name] = vectors.All(t, o.Name)
	}
	data, err := vectors.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../vectors.npz")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(len(committed), len(data)); d != "" || string(data) != string(committed) {
		t.Errorf("the archive is not what its vectors are written as: %s", d)
	}
}
