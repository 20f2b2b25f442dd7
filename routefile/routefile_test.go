package routefile_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"lockstep"
	"lockstep/internal/fuzzing"
	"lockstep/internal/libm"
	"lockstep/internal/pandas"
	"lockstep/internal/simtest"
	"lockstep/parity/schema"
	"lockstep/routefile"
)

func TestMain(m *testing.M) { os.Exit(fuzzing.Main(m)) }

const header = "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n"

// csvRows makes a route's text; edit may change the fields of a row.
func csvRows(n int, edit func(row int, fields []string)) string {
	var b strings.Builder
	b.WriteString(header)
	for i := range n {
		fields := []string{
			fmt.Sprint(float64(i) / 10), "30.5", "-0.25", "0.01", fmt.Sprint(float64(i) / 1000),
			"0.125",
		}
		if i >= lockstep.ControlStartIdx {
			fields[5] = ""
		}
		if edit != nil {
			edit(i, fields)
		}
		b.WriteString(strings.Join(fields, ",") + "\n")
	}
	return b.String()
}

func read(text string) (*lockstep.Route, error) {
	return routefile.Loader{}.Read(strings.NewReader(text), "routes/00000.csv")
}

func TestReadRoute(t *testing.T) {
	r, err := read(csvRows(120, nil))
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "00000" || r.Seed != 3285 || r.Len() != 120 || len(r.Draws) != 100 {
		t.Errorf("name %s, seed %d, %d rows, %d draws; want 00000, 3285, 120, 100", r.Name, r.Seed,
			r.Len(), len(r.Draws))
	}
	want := lockstep.State{RollLataccel: 0x1.91df4eba48eaap-04, VEgo: 30.5, AEgo: -0.25}
	if got := r.State(7); got.VEgo != want.VEgo || got.AEgo != want.AEgo ||
		math.Abs(got.RollLataccel-0.0981) > 1e-4 {
		t.Errorf("State(7) = %v, want %v", got, want)
	}
	if r.SteerCommand[0] != -0.125 || !math.IsNaN(r.SteerCommand[100]) ||
		r.TargetLataccel[99] != 0.099 {
		t.Errorf(
			"steer %v, %v, target %v", r.SteerCommand[0], r.SteerCommand[100], r.TargetLataccel[99])
	}
}

// TestReadNumbers: each number of each column is that of its own text, read as the profile's pandas
// does, and there is a draw for each step, of routes behind the end of the costs, too.
func TestReadNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	const rows = 640
	var texts [rows][5]string // roll, v ego, a ego, target, steer
	for i := range texts {
		for k := range texts[i] {
			texts[i][k] = strconv.FormatFloat(3*random.NormFloat64(), 'g', 17, 64)
		}
	}
	text := csvRows(rows, func(i int, fields []string) {
		of := texts[i]
		copy(fields[1:], []string{of[1], of[2], of[0], of[3], of[4]})
		fields[0] = `5" of what is not read`
	})
	differ := [5]int{}
	for _, form := range []lockstep.CSV{lockstep.CSV2, lockstep.CSVExact} {
		l := routefile.Loader{Profile: lockstep.Profile{CSV: form}, SeedPrefix: "elsewhere/"}
		r, err := l.Read(strings.NewReader(text), "routes/a b.CSV")
		if err != nil {
			t.Fatal(err)
		}
		for k, column := range r.Columns() {
			want := make([]float64, rows)
			for i := range want {
				x, _ := pandas.ParseFloat(texts[i][k], pandas.Rounding(form))
				if exact, _ := pandas.ParseFloat(texts[i][k], pandas.Correct); x != exact {
					differ[k]++
				}
				switch want[i] = x; k {
				case 0:
					want[i] = libm.Sin(x) * lockstep.AccG
				case 4:
					want[i] = -x
				}
			}
			if err := simtest.Same(fmt.Sprintf("column %d", k), *column, want); err != nil {
				t.Errorf("%v: %v", l.Profile, err)
			}
		}
		seed := lockstep.Seed("elsewhere/a b.CSV")
		if r.Name != "a b" || r.Seed != seed {
			t.Errorf("name %s, seed %d, want a b, %d", r.Name, r.Seed, seed)
		}
		want := lockstep.Draws(seed, rows-lockstep.ContextLength)
		if err := simtest.Same("draws", r.Draws, want); err != nil {
			t.Error(err)
		}
	}
	for k, n := range differ {
		if n == 0 {
			t.Errorf("no number of column %d is another when it is read exactly", k)
		}
	}
}

// TestReadRouteForms reads the same route in other forms of CSV.
func TestReadRouteForms(t *testing.T) {
	plain := csvRows(110, nil)
	want, err := read(plain)
	if err != nil {
		t.Fatal(err)
	}
	shuffled := shuffle(plain)
	for name, text := range map[string]string{
		"CRLF":               strings.ReplaceAll(plain, "\n", "\r\n"),
		"byte order mark":    "\xef\xbb\xbf" + plain,
		"no last newline":    strings.TrimSuffix(plain, "\n"),
		"blank lines":        strings.ReplaceAll(plain, "\n", "\n\n"),
		"quotes":             strings.ReplaceAll(plain, "30.5", `"30.5"`),
		"other column order": shuffled,
		// of what is used: a mark that stays is part of the first column's name
		"byte order mark before a column": "\xef\xbb\xbf" + shuffled,
		"a quote in a text":               strings.Replace(shuffled, ",x,", `,x"y,`, 1),
		// what stands behind quotes is part of the field, and no quote opens others there
		"a text behind quotes":   strings.Replace(shuffled, ",x,", `,"x"y,`, 1),
		"a quote behind quotes":  strings.Replace(shuffled, ",x,", `,"x,y"z"",`, 1),
		"a number behind quotes": strings.Replace(plain, "30.5", `"3"0.5`, 1),
		"lines in a text":        strings.Replace(shuffled, ",x,", ",\"x\n\"\"\r\ny\",", 1),
		"CR":                     strings.ReplaceAll(plain, "\n", "\r"),
		"lines of blanks":        strings.ReplaceAll(plain, "\n", "\n \t\n"),
		// the first counts
		"a column twice": strings.Replace(strings.ReplaceAll(plain, "\n", ",0.7\n"), ",0.7",
			",roll", 1),
		"spaces":              strings.ReplaceAll(plain, "30.5", " 30.5 "),
		"no empty last field": strings.ReplaceAll(plain, ",\n", "\n"),
		"NaN in steer":        strings.ReplaceAll(plain, ",\n", ",NaN\n"),
	} {
		got, err := read(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(schema.Equal[float64])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadProfile: numbers are rounded as the profile has it.
func TestReadProfile(t *testing.T) {
	const digits = "1.2345678901234567e-30"
	read := func(csv lockstep.CSV) float64 {
		x, _ := pandas.ParseFloat(digits, pandas.Rounding(csv))
		return x
	}
	if read(lockstep.CSV2) == read(lockstep.CSVExact) {
		t.Fatal(digits, "is one number in both profiles")
	}
	text := csvRows(101, func(row int, fields []string) { fields[1] = digits })
	for _, csv := range []lockstep.CSV{lockstep.CSV2, lockstep.CSVExact} {
		want := read(csv)
		l := routefile.Loader{Profile: lockstep.Profile{CSV: csv}}
		r, err := l.Read(strings.NewReader(text), "a.csv")
		if err != nil || r.VEgo[7] != want {
			t.Errorf("profile %v: %v, %v; want %v", l.Profile, r.VEgo[7], err, want)
		}
	}
}

// TestReadBroken: what cannot be read is told, with the file, at the header and behind it.
func TestReadBroken(t *testing.T) {
	no := errors.New("no")
	for _, text := range []string{"", csvRows(50, nil)} {
		_, err := routefile.Loader{}.Read(
			io.MultiReader(strings.NewReader(text), iotest.ErrReader(no)), "a.csv")
		if err == nil || err.Error() != "a.csv: no" || !errors.Is(err, no) {
			t.Errorf("after %d bytes: %v", len(text), err)
		}
	}
}

// shuffle reverses the columns and adds one of text.
func shuffle(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f := strings.Split(line, ",")
		extra := "note"
		if i > 0 {
			extra = "x"
		}
		fmt.Fprintln(&b, strings.Join([]string{f[5], f[4], extra, f[3], f[2], f[1], f[0]}, ","))
	}
	return b.String()
}

func TestReadRouteErrors(t *testing.T) {
	set := func(row, column int, text string) string {
		return csvRows(120, func(i int, fields []string) {
			if i == row {
				fields[column] = text
			}
		})
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "routes/00000.csv: empty: want a header line and at least 101 rows"},
		{"header only", header, "routes/00000.csv: 0 rows; want at least 101: steps 0 to 99 " +
			"warm up, costs count from step 100"},
		{"too short", csvRows(100, nil), "routes/00000.csv: 100 rows; want at least 101: steps " +
			"0 to 99 warm up, costs count from step 100"},
		{"a space", strings.Replace(csvRows(120, nil), ",roll", ", roll", 1),
			`routes/00000.csv:1:1: no column "roll"; want roll, vEgo, aEgo, ` +
				`targetLateralAcceleration, steerCommand`},
		{"two byte order marks", "\xef\xbb\xbf\xef\xbb\xbf" + shuffle(csvRows(120, nil)),
			`routes/00000.csv:1:1: no column "steerCommand"; want roll, vEgo, aEgo, ` +
				`targetLateralAcceleration, steerCommand`},
		{"no number", set(3, 1, "fast"), `routes/00000.csv:5:5: vEgo: "fast" is not a number`},
		{"empty field", set(3, 2, ""), "routes/00000.csv:5:10: aEgo: missing in row 3"},
		{
			"NaN", set(3, 4, "nan"),
			`routes/00000.csv:5:21: targetLateralAcceleration: "nan" is not finite`,
		},
		{"infinity", set(3, 1, "-inf"), `routes/00000.csv:5:5: vEgo: "-inf" is not finite`},
		{
			"an open quote", set(3, 2, `"0`),
			"routes/00000.csv:5:10: a quote that is not closed",
		},
		{
			"a place behind lines", strings.Replace(set(5, 1, "fast"), "\n", "\n\"\n\r\n\"", 1),
			`routes/00000.csv:9:5: vEgo: "fast" is not a number`,
		},
		{
			"a place behind CRLF", strings.ReplaceAll(set(5, 1, "fast"), "\n", "\r\n"),
			`routes/00000.csv:7:5: vEgo: "fast" is not a number`,
		},
		{
			"a place behind a text's lines", csvRows(120, func(i int, fields []string) {
				if i == 5 {
					fields[0], fields[1] = "\"\n\nabc\"", "fast"
				}
			}),
			`routes/00000.csv:9:6: vEgo: "fast" is not a number`,
		},
		{"too large", set(3, 1, "1e999"), `routes/00000.csv:5:5: vEgo: "1e999" is not a number`},
		{"roll", set(3, 3, "2e8"), "routes/00000.csv:5:16: roll: 2e+08 is outside " +
			"±1.05414336e+08 rad, where the sine is known bit for bit"},
		{"no steer", set(99, 5, ""), "routes/00000.csv:101:27: steerCommand: missing in row 99; " +
			"steer is needed before row 100"},
		{
			"steer text", set(105, 5, "left"),
			`routes/00000.csv:107:28: steerCommand: "left" is not a number`,
		},
		{
			"roll at the limit", set(3, 3, "105414336"), "routes/00000.csv:5:16: roll: " +
				"1.05414336e+08 is outside ±1.05414336e+08 rad, where the sine is known bit for " +
				"bit",
		},
		{
			"roll at the other limit", set(0, 3, "-105414336"), "routes/00000.csv:2:14: roll: " +
				"-1.05414336e+08 is outside ±1.05414336e+08 rad, where the sine is known bit for " +
				"bit",
		},
		{
			"a short record", csvRows(120, func(i int, fields []string) {
				if i == 3 {
					fields[4] = "\x00" // and what follows is cut
				}
			}), "routes/00000.csv:5:16: targetLateralAcceleration: missing in row 3",
		},
		{
			"an infinite steer", set(99, 5, "inf"),
			`routes/00000.csv:101:27: steerCommand: "inf" is not finite; ` +
				`steer is needed before row 100`,
		},
		{
			"too many fields at the end", set(119, 5, ","),
			"routes/00000.csv:121:29: row 119 has 7 fields, the header has 6",
		},
		{
			"too many fields", set(3, 5, "1,2"),
			"routes/00000.csv:5:29: row 3 has 7 fields, the header has 6",
		},
	} {
		if at := strings.Index(c.text, ",\x00"); at >= 0 {
			c.text = c.text[:at] + c.text[at+strings.Index(c.text[at:], "\n"):]
		}
		_, err := read(c.text)
		var e *routefile.Error
		if !errors.As(err, &e) || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"": ": empty", header: ": 0 rows", set(3, 5, "x"): ":5:27: steerCommand",
	} { // in one line, whatever the file is called
		name := "a\n\x1bü.csv"
		_, err := routefile.Loader{}.Read(strings.NewReader(text), name)
		if err == nil || !strings.HasPrefix(err.Error(), `a\n\x1bü.csv`+want) {
			t.Errorf("%q: %v, want …%s", name, err, want)
		}
	}
	for _, name := range strings.Split(strings.TrimSpace(header), ",")[1:] {
		_, err := read(strings.Replace(csvRows(120, nil), name, "other", 1))
		want := `routes/00000.csv:1:1: no column "` + name +
			`"; want roll, vEgo, aEgo, targetLateralAcceleration, steerCommand`
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, text := range []string{
		set(110, 5, "inf"), set(100, 5, "inf"), set(100, 5, "nan"), set(99, 5, "1"),
		set(3, 3, "105414335.9"), set(3, 3, "-105414335.9"), csvRows(101, nil),
	} {
		if _, err := read(text); err != nil {
			t.Errorf("what is not used, or just within a limit, is refused: %v", err)
		}
	}
}

// TestMake makes a route of columns in memory: the same as of a file.
func TestMake(t *testing.T) {
	text := csvRows(
		120,
		func(row int, fields []string) { fields[3] = fmt.Sprint(float64(row) / 1024) },
	)
	want, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	raw := rawColumns()
	for name, c := range map[string]routefile.Columns{
		"raw": {Values: raw, Raw: true},
		"loaded": {Values: [5][]float64{want.RollLataccel, want.VEgo, want.AEgo,
			want.TargetLataccel, want.SteerCommand}},
	} {
		got, err := routefile.Loader{}.Make("frames/00000.csv", c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(bitsOf(want), bitsOf(got)); diff != "" || got.Name != want.Name {
			t.Errorf("%s: %s, -want +got\n%s", name, got.Name, diff)
		}
		got.VEgo[0] = 0
		if c.Values[1][0] != 30.5 {
			t.Errorf("%s: the route has the caller's array", name)
		}
	}
	for want, edit := range map[string]func(c *routefile.Columns){
		"vEgo: 2 rows, want 120": func(c *routefile.Columns) { c.Values[1] = c.Values[1][:2] },
		"2 rows; want at least":  func(c *routefile.Columns) { c.Values[3] = c.Values[3][:2] },
		"aEgo: NaN in row 5 is not finite": func(c *routefile.Columns) {
			c.Values[2][5] = math.NaN()
		},
		"roll: 1e+09 in row 7 is outside ±1.05414336e+08 rad": func(c *routefile.Columns) {
			c.Values[0][7] = 1e9
		},
		"steer is needed before row 100": func(c *routefile.Columns) {
			c.Values[4][99] = math.NaN()
		},
		"targetLateralAcceleration: +Inf in": func(c *routefile.Columns) {
			c.Values[3][119] = math.Inf(1)
		},
		"vEgo: -Inf in row 0": func(c *routefile.Columns) { c.Values[1][0] = math.Inf(-1) },
		"roll: 1.05414336e+08 in row 0 is": func(c *routefile.Columns) {
			c.Values[0][0] = 105414336
		},
		"roll: -1.05414336e+08 in row 0 is": func(c *routefile.Columns) {
			c.Values[0][0] = -105414336
		},
		"100 rows; want at least 101": func(c *routefile.Columns) {
			for i := range c.Values {
				c.Values[i] = c.Values[i][:100]
			}
		},
	} {
		err := madeOf(edit)
		simtest.Refused(t, "columns", err, want)
		if err != nil && !strings.HasPrefix(err.Error(), "frame.csv: ") {
			t.Errorf("%v, want the file", err)
		}
	}
	for what, edit := range map[string]func(c *routefile.Columns){
		"no steer command that is used": func(c *routefile.Columns) {
			c.Values[4][100] = math.Inf(1)
		},
		"a roll within the limit": func(c *routefile.Columns) { c.Values[0][0] = -105414335.9 },
		"a lataccel that is no angle": func(c *routefile.Columns) {
			c.Raw, c.Values[0][0] = false, 105414336
		},
		"101 rows": func(c *routefile.Columns) {
			for i := range c.Values {
				c.Values[i] = c.Values[i][:101]
			}
		},
	} {
		if err := madeOf(edit); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// rawColumns are those of the file that TestMake reads.
func rawColumns() (raw [5][]float64) {
	for row := range 120 {
		steer := 0.125
		if row >= lockstep.ControlStartIdx {
			steer = math.NaN()
		}
		for i, x := range []float64{float64(row) / 1024, 30.5, -0.25, float64(row) / 1000, steer} {
			raw[i] = append(raw[i], x)
		}
	}
	return raw
}

// madeOf is what making a route of those columns comes to, once something is changed in them.
func madeOf(edit func(*routefile.Columns)) error {
	c := routefile.Columns{Values: rawColumns(), Raw: true}
	edit(&c)
	_, err := routefile.Loader{}.Make("frame.csv", c)
	return err
}

// bitsOf are a route's numbers, seed and last draw.
func bitsOf(r *lockstep.Route) (out []uint64) {
	for i, column := range r.Columns() {
		for _, x := range *column {
			if i == 4 && math.IsNaN(x) { // whose sign means nothing
				x = math.NaN()
			}
			out = append(out, math.Float64bits(x))
		}
	}
	return append(out, uint64(r.Seed), math.Float64bits(r.Draws[99]), uint64(len(r.Draws)))
}

func TestLoadMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.csv")
	_, err := routefile.Loader{}.Load(path)
	if want := path + ": no such file or directory"; err == nil || err.Error() != want ||
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := (routefile.Loader{}).Load(t.TempDir()); err == nil {
		t.Error("a folder loads as a route")
	}
}

func TestSeedPrefix(t *testing.T) {
	text := csvRows(101, nil)
	for prefix, want := range map[string]uint32{
		"":       3285,
		"data":   3285,
		"data/":  3285,
		"data//": lockstep.Seed("data//00000.csv"), // one slash is between the two
		"./data": lockstep.Seed("./data/00000.csv"),
	} {
		r, err := routefile.Loader{SeedPrefix: prefix}.Read(
			strings.NewReader(text), "routes/00000.csv")
		if err != nil || r.Seed != want {
			t.Errorf("prefix %q: seed %v, want %d (%v)", prefix, r.Seed, want, err)
		}
	}
}

// TestList: files of a folder are listed in the order of their names, links to files among them.
func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.csv", "c.CSV", "a.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "0.csv"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "a.txt"), filepath.Join(dir, "d.csv")); err != nil {
		t.Fatal(err)
	}
	all := []string{"a.csv", "b.csv", "c.CSV", "d.csv"}
	for limit, want := range map[int][]string{
		-1: all, 0: nil, 1: all[:1], 2: all[:2], 3: all[:3], 4: all, 5: all,
	} {
		files, err := routefile.List(dir, limit)
		var got []string
		for _, f := range files {
			got = append(got, filepath.Base(f))
		}
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("limit %d: %v, %v; want %v", limit, got, err, want)
		}
	}
	file := filepath.Join(dir, "a.txt") // whatever its name
	if files, err := routefile.List(file, 0); err != nil || !cmp.Equal(files, []string{file}) {
		t.Errorf("a file: %v, %v", files, err)
	}
	empty := t.TempDir()
	if _, err := routefile.List(empty, -1); err == nil ||
		err.Error() != empty+": no .csv file in this folder" {
		t.Errorf("empty folder: %v", err)
	}
	if _, err := routefile.List(filepath.Join(dir, "none"), -1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// FuzzReadRoute looks for text that crashes the loader or loads as something
// that is no route.
func FuzzReadRoute(f *testing.F) {
	f.Add(csvRows(101, nil))
	f.Add(shuffle(csvRows(103, nil)))
	f.Add(header + "1,2,3")
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzzing.Ended()
		r, err := read(text)
		if err != nil {
			var e *routefile.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no Error", err)
			}
			return
		}
		for _, column := range [][]float64{
			r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel,
			r.SteerCommand[:lockstep.ControlStartIdx],
		} {
			for i, x := range column {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("row %d is %v", i, x)
				}
			}
		}
	})
}

// TestName: names hold nothing that a terminal would obey.
func TestName(t *testing.T) {
	for path, want := range map[string]string{
		"data/00000.csv": "00000", "a b.csv": "a b", "é.csv": "é", "x": "x",
		`a\"b.csv`: `a\"b`, "\t.csv": `\t`, "\x1b[2J.csv": `\x1b[2J`,
		"a\nb.csv": `a\nb`, "\xff.csv": `\xff`, "2024.01.csv": "2024.01", "a.b/c": "c",
		`"a".csv`: `"a"`, "\"a\a\".csv": `\"a\a\"`,
	} {
		if got := routefile.Name(path); got != want {
			t.Errorf("%q is named %q, want %q", path, got, want)
		}
	}
	// Draws are by the name as it is, whatever is shown.
	for _, path := range []string{"a.b.csv", "x/\x1b[2J.csv", "\xff.csv", "a.CSV", "a"} {
		r, err := routefile.Loader{}.Read(strings.NewReader(csvRows(101, nil)), path)
		if seed := lockstep.Seed("data/" + filepath.Base(path)); err != nil || r.Seed != seed ||
			r.Name != routefile.Name(path) {
			t.Errorf("%q: seed %d, want %d: %v", path, r.Seed, seed, err)
		}
	}
	e := &routefile.Error{File: "\x1b]0;x\a.csv", Line: 2, Column: 3, Err: errors.New("bad")}
	if got, want := e.Error(), `\x1b]0;x\a.csv:2:3: bad`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
