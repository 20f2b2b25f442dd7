package statement

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/golden/vectors"
)

var update = flag.Bool("update", false, "TestRecorded: write down what is now")

const recorded = "testdata/recorded.tsv"

// TestRecorded: of each operation what is drawn is what it was, and each alternative, in the order
// of their names, is wrong as often as it was. One that is wrong in another way than its name says
// would be told apart as well, and by worse vectors: a plausible one is right nearly everywhere.
func TestRecorded(t *testing.T) {
	now := []string{"operation\twhat\tis"}
	for _, o := range Operations() {
		for k, draw := range o.Draws {
			now = append(now, fmt.Sprintf("%s\tdraw %d\t%s", o.Name, k, drawn(draw)))
		}
		if o.Name == "roll-lataccel" {
			continue // one of its alternatives is another where a compiler fuses
		}
		wrong := strings.Join(o.wrong(t), " ")
		now = append(now, fmt.Sprintf("%s\talternatives\t%s", o.Name, wrong))
	}
	if *update {
		if err := os.WriteFile(recorded, []byte(strings.Join(now, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(strings.TrimSpace(string(before)), "\n"), now); d != "" {
		t.Errorf("what is drawn or an alternative is another (-was +is); if it must be, "+
			"run `go test ./golden/vectors/internal/statement -run TestRecorded -update` and "+
			"`go generate ./golden/vectors`:\n%s", d)
	}
}

// wrong is on how many of some arguments each alternative is wrong: on twelve vectors, and on four
// arguments of each kind that is drawn, of which most tell nothing apart.
func (o *Operation) wrong(t *testing.T) (counts []string) {
	t.Helper()
	vs := vectors.All(t, o.Name)
	alternatives := o.Alternatives(vs)
	vs = slices.Clone(vs[:min(len(vs), 12)])
	r := rand.New(rand.NewPCG(8, 0))
	for _, draw := range o.Draws {
		for range 4 {
			v := vectors.Vector{Args: draw(r)}
			v.Want = o.Right(&Arithmetic{}, v)
			vs = append(vs, v)
		}
	}
	for _, a := range alternatives {
		wrong := 0
		for _, v := range vs {
			if vectors.Difference(a.Run(v), v.Want) != "" {
				wrong++
			}
		}
		counts = append(counts, fmt.Sprint(wrong))
	}
	return counts
}

// drawn is the hash of twenty arguments, of numbers with 13 digits: the last ones depend on whether
// a compiler fuses products and sums.
func drawn(draw func(r *rand.Rand) map[string]any) string {
	r := rand.New(rand.NewPCG(7, 0))
	var text strings.Builder
	for range 20 {
		all := draw(r)
		var names []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&text, "%s %.13g\n", name, all[name])
		}
	}
	return fmt.Sprintf("%.6x", sha256.Sum256([]byte(text.String())))
}
