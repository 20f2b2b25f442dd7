package runs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/simtest"
)

// TestCurve: what is written is read again; what another program appends is read as far
// as it is there; what is none is refused with its line.
func TestCurve(t *testing.T) {
	dir := t.TempDir()
	wrote := &Curve{
		Names: []string{"generation", "best", "mean"},
		Rows:  [][]float64{{1, 0.1, 3}, {2, 1e-300, math.NaN()}, {3, 0.05, math.Inf(1)}},
	}
	if err := wrote.Write(dir); err != nil {
		t.Fatal(err)
	}
	read, err := ReadCurve(dir)
	if err != nil || len(read.Rows) != 3 ||
		strings.Join(read.Names, " ") != "generation best mean" {
		t.Fatalf("%+v, %v", read, err)
	}
	for i, row := range wrote.Rows {
		for k, x := range row {
			if math.Float64bits(x) != math.Float64bits(read.Rows[i][k]) {
				t.Errorf("row %d, column %d: %v, want %v", i, k, read.Rows[i][k], x)
			}
		}
	}
	for _, test := range []struct{ text, draws, fails string }{
		{
			"epoch,cost\r\n0,4\r\n1,\r\n2,1\r\n3,0",
			"epoch 2\ncost                         4 to         1  █ ▁\n",
			"",
		},
		{"epoch,cost\n", "", ""},
		{"", "", ""},
		{"epoch,cost\n1,2\n2,two\n", "", `curve.csv:3: "two" is not a number`},
		{"\nepoch,cost\n\n1,2\n\n2,two\n", "", `curve.csv:6: "two" is not a number`},
		{"epoch,\"cost\n(mean)\"\n1,two\n", "", `curve.csv:3: "two" is not a number`},
		{"epoch,cost\n1\n", "", "wrong number of fields"},
	} {
		if err := os.WriteFile(filepath.Join(dir, curveName), []byte(test.text),
			0o666); err != nil {
			t.Fatal(err)
		}
		p, err := Watch(dir)
		if test.fails != "" {
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%q: %v, want %q", test.text, err, test.fails)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if p.WriteText(&text); p.Plan != nil || p.Done() || text.String() != test.draws {
			t.Errorf("%q: %q; want %q", test.text, text.String(), test.draws)
		}
	}
	plan := filepath.Join(dir, planName) // one that cannot be read is not one that is not there
	if err := errors.Join(wrote.Write(dir), os.WriteFile(plan, []byte("{"), 0o666)); err != nil {
		t.Fatal(err)
	}
	_, err = Watch(dir)
	simtest.Refused(t, "a curve beside half a plan", err, plan)
}
