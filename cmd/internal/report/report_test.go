package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

func costs(lataccel, jerk float64) lockstep.Costs {
	return lockstep.Costs{Lataccel: lataccel, Jerk: jerk, Total: 50*lataccel + jerk}
}

// wave is a trajectory of n steps.
func wave(n int, phase float64) *lockstep.Trajectory {
	t := &lockstep.Trajectory{}
	for i := range n {
		x := float64(i) / 30
		t.Target = append(t.Target, 1.5*math.Sin(x))
		t.Lataccel = append(t.Lataccel, 1.5*math.Sin(x+phase)+0.01*math.Cos(31*x))
		t.Action = append(t.Action, 0.7*math.Sin(x-phase))
	}
	return t
}

// testRun has n routes, the first five with trajectories.
func testRun(controller string, n int, factor float64) Run {
	r := Run{Controller: controller, Engine: "reference"}
	for i := range n {
		route := RouteResult{Name: fmt.Sprintf("%05d", i), Floor: 3 + float64(i)/8}
		route.Costs = costs(factor*(1+float64(i%7)/3), 20+factor*float64(i*i%31))
		if i < 5 {
			route.Trajectory = wave(600, factor/10)
		}
		r.Routes = append(r.Routes, route)
	}
	return r
}

// TestClasses: costs of different classes are said not to be comparable, in the report and
// in the text, and those of one class are not. A table is of the class that its noise says.
func TestClasses(t *testing.T) {
	for noise, want := range map[lockstep.NoiseKind]Class{
		0: ClassUnknown, lockstep.RouteNoise: ClassOracle, lockstep.SeededNoise: ClassTable,
		lockstep.ExpectedNoise: ClassTable,
	} {
		if got := ClassOf(&lockstep.Table{Noise: noise}); got != want {
			t.Errorf("a table of noise %d is of class %q, want %q", noise, got, want)
		}
	}
	e := testEval(3)
	e.Baseline.Class = ClassOf(lockstep.DefaultPID())
	for class, differ := range map[Class]bool{ClassController: false, ClassOracle: true} {
		e.Test.Class = class
		var text strings.Builder
		if err := e.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "report.html")
		if err := WriteEval(path, e); err != nil {
			t.Fatal(err)
		}
		html, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		const says = "different classes are not comparable: test is a table that knows the " +
			"draws, baseline a controller."
		if strings.Contains(text.String(), says) != differ ||
			strings.Contains(string(html), says) != differ ||
			!strings.Contains(string(html), "class of pid") {
			t.Errorf("%s against a controller: %s%s", class, text.String(), html)
		}
	}
}

// TestFacts: engine and profile of the second run are told where either is another, and each run's
// class by the name of its own controller.
func TestFacts(t *testing.T) {
	first := Run{Controller: "a", Engine: "reference", Class: ClassOracle}
	for _, second := range []Run{
		{Controller: "b", Engine: "reference"}, {Controller: "b", Engine: "batched"},
		{Controller: "b", Engine: "reference", Profile: lockstep.Profile{CSV: 1},
			Class: ClassTable},
	} {
		want := []Fact{{"engine", "reference"}, {"profile", first.Profile.String()},
			{"class of a", string(ClassOracle)}}
		if second.Engine != first.Engine || second.Profile != first.Profile {
			want = append(want, Fact{"engine", second.Engine},
				Fact{"profile", second.Profile.String()})
		}
		if second.Class != "" {
			want = append(want, Fact{"class of b", string(second.Class)})
		}
		if got := (Origin{}).facts(first, second); !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", second, got, want)
		}
	}
}

func testEval(n int) Eval {
	return Eval{
		Test: testRun("pid", n, 1.25), Baseline: testRun("zero", n, 2.5),
		Origin: Origin{
			Command:     []string{"lockstep", "eval", "--data_path", "my data"},
			Model:       "tinyphysics.onnx",
			ModelSHA256: "5beca7f07a3e",
			Data:        "my data",
			SeedPrefix:  "data",
			Facts:       []Fact{{"Go", "go1.26"}},
		},
	}
}

func writeEval(t *testing.T, e Eval) *page {
	return written(t, func(path string) error { return WriteEval(path, e) })
}

func writeRollout(t *testing.T, r Single) *page {
	return written(t, func(path string) error { return WriteRollout(path, r) })
}

func written(t *testing.T, write func(path string) error) *page {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, data)
	p.checkSelfContained(t)
	return p
}

// page is a report, parsed. Reports are written such that they are well-formed
// XML, too, which is stricter than any HTML parser.
type page struct {
	*element
	bytes []byte
}

type element struct {
	name     string
	attrs    map[string]string
	children []*element
	text     string // of the element and all below
	building strings.Builder
}

func parse(t *testing.T, data []byte) *page {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(data))
	root := &element{name: "root"}
	stack := []*element{root}
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		top := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			top.children = append(top.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			top.text = top.building.String()
			stack = stack[:len(stack)-1]
		case xml.CharData:
			for _, e := range stack {
				e.building.Write(token)
			}
		}
	}
	root.text = root.building.String()
	return &page{root, data}
}

// all returns the elements of a name that have a class, or any if it is empty.
func (e *element) all(name, class string) []*element {
	var found []*element
	for _, c := range e.children {
		if c.name == name &&
			(class == "" || slices.Contains(strings.Fields(c.attrs["class"]), class)) {
			found = append(found, c)
		}
		found = append(found, c.all(name, class)...)
	}
	return found
}

func (e *element) walk(f func(*element)) {
	for _, c := range e.children {
		f(c)
		c.walk(f)
	}
}

// cells are the texts of a table's rows, as a reader sees them.
func cells(table *element) [][]string {
	var rows [][]string
	for _, body := range table.all("tbody", "") {
		for _, tr := range body.all("tr", "") {
			var row []string
			for _, c := range tr.children {
				row = append(row, strings.TrimSpace(c.text))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func (e *element) wantText(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(e.text, text) {
			t.Errorf("the report does not say %q", text)
		}
	}
}

var elsewhere = regexp.MustCompile(
	`(?i)https?:|url\(|@import|\bimport\b|\bfetch\b|XMLHttpRequest|WebSocket|srcset`,
)

// loading are the elements that load something.
var loading = []string{
	"img", "link", "iframe", "object", "embed", "video", "audio", "source", "form", "image", "use",
	"base",
}

// checkSelfContained checks that nothing is loaded, that the browser is told so,
// and that links lead to places in the report.
func (p *page) checkSelfContained(t *testing.T) {
	t.Helper()
	if bad := elsewhere.Find(p.bytes); bad != nil {
		t.Errorf("the report contains %q", bad)
	}
	p.checkElements(t)
	p.checkLinks(t)
	scripts := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllSubmatch(p.bytes, -1)
	if len(scripts) != 1 {
		t.Fatalf("%d scripts", len(scripts))
	}
	sum := sha256.Sum256(scripts[0][1])
	want := "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if got := p.all("meta", "")[1].attrs["content"]; got != want {
		t.Errorf("policy %q, want %q", got, want)
	}
}

// checkElements: none loads or runs anything, and those that want a name for who cannot see them
// have one.
func (p *page) checkElements(t *testing.T) {
	t.Helper()
	p.walk(func(e *element) {
		if slices.Contains(loading, e.name) {
			t.Errorf("there is a <%s>", e.name)
		}
		for name, value := range e.attrs {
			if name == "src" || strings.HasPrefix(name, "on") ||
				strings.Contains(value, "ZgotmplZ") {
				t.Errorf("<%s> has %s=%q", e.name, name, value)
			}
		}
		if e.name == "svg" && e.attrs["aria-label"] == "" {
			t.Error("an svg without aria-label")
		}
		if e.name == "th" && e.attrs["scope"] == "" {
			t.Errorf("a th without scope: %q", e.text)
		}
	})
}

// checkLinks: they lead to places in the report, each of which has an id of its own.
func (p *page) checkLinks(t *testing.T) {
	t.Helper()
	ids := map[string]bool{}
	var links []string
	p.walk(func(e *element) {
		for name, value := range e.attrs {
			switch name {
			case "href":
				links = append(links, value)
			case "aria-labelledby":
				links = append(links, "#"+value)
			case "id":
				if ids[value] {
					t.Errorf("two elements have the id %q", value)
				}
				ids[value] = true
			}
		}
	})
	for _, link := range links {
		if !strings.HasPrefix(link, "#") || !ids[link[1:]] {
			t.Errorf("a link to %q, which is not in the report", link)
		}
	}
}

// values turns the path of a line back into step and value.
func values(t *testing.T, svg, path *element) map[int]float64 {
	t.Helper()
	top, err := strconv.ParseFloat(svg.attrs["data-top"], 64)
	if err != nil {
		t.Fatal(err)
	}
	unit, err := strconv.ParseFloat(svg.attrs["data-unit"], 64)
	if err != nil {
		t.Fatal(err)
	}
	read := map[int]float64{}
	for _, part := range strings.Split(path.attrs["d"], "M")[1:] {
		var n []int
		for _, text := range regexp.MustCompile(`-?\d+`).FindAllString(part, -1) {
			i, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			n = append(n, i)
		}
		x, y := n[0], n[1]
		read[x] = top - float64(y)*unit
		for i := 2; i < len(n); i += 2 {
			x, y = x+n[i], y+n[i+1]
			read[x] = top - float64(y)*unit
		}
	}
	return read
}

func checkLine(t *testing.T, svg, path *element, from int, want []float64) {
	t.Helper()
	got := values(t, svg, path)
	if len(got) != len(want) {
		t.Errorf("%s has %d points, want %d", path.attrs["data-name"], len(got), len(want))
	}
	unit, _ := strconv.ParseFloat(svg.attrs["data-unit"], 64)
	for i, x := range want {
		y, ok := got[from+i]
		if !ok || math.Abs(x-y) > unit*(0.5+1e-6) {
			t.Fatalf(
				"%s at step %d is %v, want %v within half of %v", path.attrs["data-name"], from+i,
				y, x, unit,
			)
		}
	}
}

func TestEval(t *testing.T) {
	e := testEval(30)
	p := writeEval(t, e)
	test, _ := e.Test.Costs()
	baseline, _ := e.Baseline.Costs()
	mean, other := reference.MeanCosts(test).Lataccel, reference.MeanCosts(baseline).Lataccel
	p.wantText(
		t, "The test controller beats the baseline", "test: pid", "baseline: zero",
		"over 30 routes", "lockstep eval --data_path 'my data'", "tinyphysics.onnx", "5beca7f07a3e",
		"ort1.30-avx512-expU-sinfma-csv2", "reference", "go1.26", exact(mean),
	)
	tables := p.all("table", "")
	means := cells(p.all("table", "aggregate")[0])
	if len(means) != 6 || means[1][0] != "mean lataccel" ||
		means[1][1] != fixed(mean)+exact(mean) ||
		means[1][3] != signed(mean-other) {
		t.Errorf("means and medians are %q", means)
	}
	var total []float64
	for _, r := range e.Test.Routes {
		total = append(total, r.Costs.Total)
	}
	slices.Sort(total)
	if want := fixed((total[14]+total[15])/2) + exact((total[14]+total[15])/2); means[3][1] !=
		want {
		t.Errorf("median total %q, want %q", means[3][1], want)
	}

	rows := cells(tables[len(tables)-1])
	if len(rows) != 30 {
		t.Fatalf("%d routes in the list of all", len(rows))
	}
	for i, row := range rows {
		a, b := e.Test.Routes[i], e.Baseline.Routes[i]
		want := []string{
			a.Name, fixed(a.Floor), fixed(a.Costs.Total), fixed(b.Costs.Total),
			signed(a.Costs.Total - b.Costs.Total), fixed(a.Costs.Lataccel),
			fixed(b.Costs.Lataccel), fixed(a.Costs.Jerk), fixed(b.Costs.Jerk),
		}
		if !slices.Equal(row, want) {
			t.Errorf("row %q, want %q", row, want)
		}
	}
	worst := cells(tables[1])
	if len(worst) != 10 || worst[0][2] != fixed(total[29]) || worst[9][2] != fixed(total[20]) {
		t.Errorf("worst routes are %q", worst)
	}

	drives := p.all("figure", "drive")
	if len(drives) != 5 {
		t.Fatalf("%d sample rollouts", len(drives))
	}
	for i, d := range drives {
		svg := d.all("svg", "")[0]
		a, b := e.Test.Routes[i].Trajectory, e.Baseline.Routes[i].Trajectory
		for class, want := range map[string][]float64{
			"target":   a.Target,
			"test":     a.Lataccel,
			"baseline": b.Lataccel,
		} {
			line := svg.all("path", class)[0]
			checkLine(t, svg, line, 0, want)
			if name := map[string]string{"target": "target", "test": "test: pid",
				"baseline": "baseline: zero"}[class]; line.attrs["data-name"] != name {
				t.Errorf("the line of %s is named %q", name, line.attrs["data-name"])
			}
		}
		d.wantText(
			t, e.Test.Routes[i].Name, fixed(e.Test.Routes[i].Costs.Total),
			fixed(e.Baseline.Routes[i].Costs.Total), "control start", "m/s²", "time (s)",
		)
		if got := d.all("span", "edge")[0].attrs["style"]; got != "left:16.67%" {
			t.Errorf("control starts at %s of the plot", got)
		}
	}
	scatter := p.all("div", "scatter")[0]
	if dots := scatter.all("path", "dot"); len(dots) != 30 ||
		dots[3].text != "00003: test "+fixed(e.Test.Routes[3].Costs.Total)+", baseline "+fixed(
			e.Baseline.Routes[3].Costs.Total,
		) {
		t.Errorf("%d points in the scatter plot, one says %q", len(dots), dots[3].text)
	}
}

// TestLost: a controller that loses each of a few routes is said to lose them all.
func TestLost(t *testing.T) {
	e := testEval(3)
	e.Test, e.Baseline = e.Baseline, e.Test
	if lost := newEvalPage(e).Lost; len(lost) != 3 {
		t.Errorf("%d of 3 lost routes are listed", len(lost))
	}
}

func TestRollout(t *testing.T) {
	run := testRun("pid", 7, 1)
	n := 600
	route := &lockstep.Route{}
	for i := range n + 9 { // it goes on where costs have ended
		route.RollLataccel = append(route.RollLataccel, 0.2*math.Sin(float64(i)/50))
		route.VEgo = append(route.VEgo, 20+5*math.Sin(float64(i)/80))
		route.TargetLataccel = append(route.TargetLataccel, 0)
	}
	run.Routes[0].Route = route
	p := writeRollout(t, Single{Run: run})
	drives := p.all("figure", "drive")
	if len(drives) != 5 {
		t.Fatalf("%d rollouts drawn", len(drives))
	}
	svgs := drives[0].all("svg", "")
	if len(svgs) != 5 || len(drives[1].all("svg", "")) != 3 {
		t.Fatalf("%d plots with a route, %d without", len(svgs), len(drives[1].all("svg", "")))
	}
	trajectory := run.Routes[0].Trajectory
	var jerk []float64
	for i := 1; i < n; i++ {
		jerk = append(jerk, (trajectory.Lataccel[i]-trajectory.Lataccel[i-1])/0.1)
	}
	checkLine(t, svgs[0], svgs[0].all("path", "target")[0], 0, trajectory.Target)
	checkLine(t, svgs[0], svgs[0].all("path", "test")[0], 0, trajectory.Lataccel)
	checkLine(t, svgs[1], svgs[1].all("path", "line")[0], 0, trajectory.Action)
	checkLine(t, svgs[2], svgs[2].all("path", "line")[0], 1, jerk)
	checkLine(t, svgs[3], svgs[3].all("path", "line")[0], 0, route.RollLataccel[:n])
	checkLine(t, svgs[4], svgs[4].all("path", "line")[0], 0, route.VEgo[:n])

	table := cells(p.all("table", "costs")[0])
	for i, r := range run.Routes {
		if want := []string{r.Name, fixed(r.Floor), fixed(r.Costs.Total), fixed(r.Costs.Lataccel),
			fixed(r.Costs.Jerk), ""}; !slices.Equal(table[i], want) {
			t.Errorf("row %q, want %q", table[i], want)
		}
	}
	short := writeRollout(t, Single{Run: testRun("pid", longTable, 1)})
	if len(short.all("details", "")) != 0 {
		t.Error("a short table is folded")
	}
	long := writeRollout(t, Single{Run: testRun("pid", 300, 1)})
	if n := len(cells(long.all("details", "")[0].all("table", "")[0])); n != 300 {
		t.Errorf("%d of 300 routes in the folded table", n)
	}
	if n := len(cells(long.all("table", "costs")[0])); n != 10 {
		t.Errorf("%d worst routes", n)
	}
}

func TestVerdict(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	run := func(controller string, all ...lockstep.Costs) Run {
		r := Run{Controller: controller}
		for i, c := range all {
			r.Routes = append(
				r.Routes, RouteResult{Name: strconv.Itoa(i), Result: lockstep.Result{Costs: c}},
			)
		}
		return r
	}
	for name, c := range map[string]struct {
		test, baseline []lockstep.Costs
		want           []string
	}{
		"better": {[]lockstep.Costs{costs(1, 10)}, []lockstep.Costs{costs(2, 20)},
			[]string{"beats the baseline", "60.000 against 120.000, 50.0 % lower, over 1 route."}},
		"worse": {[]lockstep.Costs{costs(2, 20)}, []lockstep.Costs{costs(1, 10)},
			[]string{"does not beat", "100.0 % higher"}},
		"equal means": {[]lockstep.Costs{costs(1, 0), costs(2, 0)},
			[]lockstep.Costs{costs(2, 0), costs(1, 0)},
			[]string{"does not beat", "75.000 against 75.000, over 2 routes."}},
		"identical": {[]lockstep.Costs{costs(1, nan)}, []lockstep.Costs{costs(1, nan)},
			[]string{"No difference", "bit for bit"}},
		"another cost of the same total": {
			[]lockstep.Costs{costs(1, 1e-20)}, []lockstep.Costs{costs(1, 0)},
			[]string{"does not beat", "50.000 against 50.000"},
		},
		"zero": {[]lockstep.Costs{costs(1, 0)}, []lockstep.Costs{costs(0, 0)},
			[]string{"does not beat", "50.000 against 0.000, over"}},
		"NaN": {[]lockstep.Costs{costs(1, nan)}, []lockstep.Costs{costs(2, nan)},
			[]string{"No verdict", "There is no mean total cost over 1 route: no route has one.",
				"No number (NaN): 1 of baseline, 1 of test.", "1 not comparable"}},
		"huge": {[]lockstep.Costs{costs(2e4, 0)}, []lockstep.Costs{costs(1, 0)},
			[]string{"does not beat", "1000000.000", "Above 990 and not shown: 1 of test."}},
		"infinite": {[]lockstep.Costs{costs(inf, 0)}, []lockstep.Costs{costs(1, 0)},
			[]string{"does not beat", "∞ against 50.000, over"}},
		"against infinity": {[]lockstep.Costs{costs(1, 0)}, []lockstep.Costs{costs(inf, 0)},
			[]string{"beats the baseline", "50.000 against ∞, over"}},
		"against NaN": {[]lockstep.Costs{costs(1, 0)}, []lockstep.Costs{costs(1, nan)},
			[]string{"No verdict"}},
		"no routes": {nil, nil, []string{"Nothing to compare"}},
	} {
		t.Run(name, func(t *testing.T) {
			writeEval(
				t, Eval{Test: run("a", c.test...), Baseline: run("b", c.baseline...)},
			).wantText(t, c.want...)
			writeRollout(t, Single{Run: run("a", c.test...)})
		})
	}
}

func TestFailures(t *testing.T) {
	e := testEval(12)
	e.Test.Routes[3].Err = errors.New("mine.py, step 123:\nZeroDivisionError <&>")
	e.Test.Routes[3].Costs.Total = 987654.321 // must not be seen
	e.Baseline.Routes[4].Err = errors.New("no such file")
	p := writeEval(t, e)
	var both []lockstep.Costs
	for i, r := range e.Test.Routes {
		if i != 3 && i != 4 {
			both = append(both, r.Costs)
		}
	}
	if mean := cells(p.all("table", "aggregate")[0])[1][1]; !strings.HasSuffix(
		mean, exact(reference.MeanCosts(both).Lataccel),
	) {
		t.Errorf("the mean is %s, want that of the 10 routes that have both costs", mean)
	}
	p.wantText(
		t, "2 of 24 rollouts failed", "mine.py, step 123:\nZeroDivisionError <&>", "no such file",
		"over 10 routes",
	)
	if strings.Contains(p.text, "987654.321") {
		t.Error("the cost of a failed route is shown")
	}
	if n := len(p.all("figure", "drive")); n != 3 {
		t.Errorf("%d sample rollouts, want the 3 that did not fail", n)
	}

	all := testEval(300)
	for i := range all.Test.Routes {
		all.Test.Routes[i].Err = errors.New(strings.Repeat("at line 1\n", 100))
	}
	p = writeEval(t, all)
	p.wantText(t, "Nothing to compare", "And 200 more")
	if n := len(cells(p.all("table", "left")[0])); n != 100 {
		t.Errorf("%d failures listed", n)
	}
	writeRollout(t, Single{Run: all.Test}).wantText(
		t, "No route has a cost", "300 of 300 routes failed",
	)
}

// TestEscaping gives every string of the input a text that means something else
// in HTML, CSS, JavaScript or XML; all must appear as they are.
func TestEscaping(t *testing.T) {
	texts := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`,
		`</style></title></svg>`, `&amp;&lt;`, `]]>--><!--`, `{{.}}`, `路線 é`,
	}
	for _, text := range texts {
		e := testEval(6)
		e.Test.Controller, e.Baseline.Controller = text, text
		e.Test.Engine = text
		for i := range e.Test.Routes {
			e.Test.Routes[i].Name, e.Baseline.Routes[i].Name = text, text
		}
		e.Test.Routes[5].Err = errors.New(text)
		e.Origin = Origin{
			Command:     []string{text},
			Model:       text,
			ModelSHA256: text,
			Data:        text,
			SeedPrefix:  text,
			Facts:       []Fact{{text, text}},
		}
		plain := writeEval(t, testEval(6))
		for _, p := range []*page{
			writeEval(t, e), writeRollout(t, Single{Run: e.Test, Origin: e.Origin}),
		} {
			p.wantText(t, text)
			var names, plainNames []string
			p.walk(func(e *element) { names = append(names, e.name) })
			plain.walk(func(e *element) { plainNames = append(plainNames, e.name) })
			for _, name := range names {
				if !slices.Contains(plainNames, name) && name != "pre" {
					t.Errorf("%q made an element <%s>", text, name)
				}
			}
			found := 0
			p.walk(func(e *element) {
				if e.attrs["data-name"] == text || strings.Contains(e.attrs["aria-label"], text) {
					found++
				}
			})
			if found == 0 {
				t.Errorf("%q is in no label", text)
			}
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	e := testEval(40)
	a, b := writeEval(t, e), writeEval(t, e)
	if err := simtest.Same("the second report", b.bytes, a.bytes); err != nil {
		t.Error(err)
	}
	r := Single{Run: e.Test, Origin: e.Origin}
	c, d := writeRollout(t, r), writeRollout(t, r)
	if err := simtest.Same("the second report of rollouts", d.bytes, c.bytes); err != nil {
		t.Error(err)
	}
}

func TestSize(t *testing.T) {
	e := testEval(5000)
	for i := range e.Test.Routes {
		c := costs(math.Exp(math.Sin(float64(i*i))), 30*math.Exp(math.Sin(float64(7*i*i))))
		e.Test.Routes[i].Costs = c
	}
	p := writeEval(t, e)
	if len(p.bytes) > 3_000_000 {
		t.Errorf("%d bytes for 5,000 routes", len(p.bytes))
	}
	if n := len(p.all("div", "scatter")[0].all("path", "dot")); n != 5000 {
		t.Errorf("%d of 5,000 routes in the scatter plot", n)
	}
}

// TestShortRoute is a route of 101 rows: one step costs, so that there is no jerk.
func TestShortRoute(t *testing.T) {
	run := Run{
		Controller: "pid",
		Routes: []RouteResult{
			{
				Name:   "short",
				Result: lockstep.Result{Costs: costs(1.5, math.NaN()), Trajectory: wave(101, 0.1)},
			},
		},
	}
	e := Eval{Test: run, Baseline: run}
	p := writeEval(t, e)
	p.wantText(t, "No difference", "1.500", "NaN")
	edges := p.all("figure", "drive")[0].all("span", "edge")
	if len(edges) != 1 || !strings.Contains(edges[0].attrs["class"], "flip") ||
		edges[0].attrs["style"] != "left:99.01%" {
		t.Errorf("marks of a short route: %v", edges)
	}
	writeRollout(t, Single{Run: run}).wantText(t, "NaN")
}

// TestOddTrajectories must not fail, and must not draw what is not there.
func TestOddTrajectories(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		values []float64
		want   int
	}{
		"empty":    {nil, 0},
		"one":      {[]float64{1}, 1},
		"constant": {[]float64{0, 0, 0}, 3},
		"gaps":     {[]float64{nan, 1, 2, nan, nan, 3, math.Inf(1), -4, nan}, 4},
		"all NaN":  {[]float64{nan, nan}, 0},
		"large":    {[]float64{1e8, -1e8, math.MaxFloat64, -math.MaxFloat64, 1e-300}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			trajectory := &lockstep.Trajectory{
				Target:   c.values,
				Lataccel: c.values,
				Action:   c.values,
			}
			p := writeRollout(
				t,
				Single{
					Run: Run{
						Routes: []RouteResult{
							{Name: "odd", Result: lockstep.Result{Trajectory: trajectory}},
						},
					},
				},
			)
			svg := p.all("figure", "drive")[0].all("svg", "")[0]
			got := values(t, svg, svg.all("path", "target")[0])
			if len(got) != c.want {
				t.Errorf("%d points, want %d", len(got), c.want)
			}
			unit, _ := strconv.ParseFloat(svg.attrs["data-unit"], 64)
			for step, y := range got {
				if math.Abs(y-c.values[step]) > unit {
					t.Errorf("%v at step %d, want %v", y, step, c.values[step])
				}
			}
		})
	}
}

// TestOddCosts: whatever two costs a route has, no element of a page is placed by what is no
// number; there is a point for each pair of finite ones, and the longest bar is that of the highest
// finite cost. Drives of different lengths are each drawn to their ends.
func TestOddCosts(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 5e-324, 2, 7,
		-1e12, math.MaxFloat64}
	e := Eval{Test: Run{Controller: "a"}, Baseline: Run{Controller: "b"}}
	finite := 0
	for i, x := range odd {
		for k, y := range odd {
			name := fmt.Sprint(i, "-", k)
			a, b := lockstep.Costs{Jerk: x, Total: x}, lockstep.Costs{Jerk: y, Total: y}
			e.Test.Routes = append(e.Test.Routes,
				RouteResult{Name: name, Result: lockstep.Result{Costs: a}})
			e.Baseline.Routes = append(e.Baseline.Routes,
				RouteResult{Name: name, Result: lockstep.Result{Costs: b}})
			if !math.IsNaN(x-x) && !math.IsNaN(y-y) {
				finite++
			}
		}
	}
	long, short := wave(600, 0.1), wave(300, 0.2)
	e.Test.Routes[0].Trajectory, e.Baseline.Routes[0].Trajectory = short, long
	e.Test.Routes[1].Trajectory, e.Baseline.Routes[1].Trajectory = long, short
	p := writeEval(t, e)
	single := e.Test
	single.Routes = nil
	for i := range odd[:len(odd)-1] { // beside the largest number all others have no bar
		r := e.Test.Routes[len(odd)*i]
		r.Trajectory = nil
		single.Routes = append(single.Routes, r)
	}
	q := writeRollout(t, Single{Run: single})
	for _, page := range []*page{p, q} {
		page.walk(func(e *element) {
			for _, name := range []string{"d", "style", "x", "y", "width", "height"} {
				if v := e.attrs[name]; strings.Contains(v, "NaN") || strings.Contains(v, "Inf") {
					t.Errorf("a %s has %s %q", e.name, name, v)
				}
			}
		})
	}
	if dots := p.all("div", "scatter")[0].all("path", "dot"); len(dots) != finite {
		t.Errorf("%d points of %d pairs of finite costs", len(dots), finite)
	}
	widest := ""
	for _, bar := range q.all("i", "jerk") {
		if bar.attrs["style"] == "width:100.00%" {
			widest += bar.attrs["style"]
		}
	}
	if widest != "width:100.00%" {
		t.Errorf("bars of full width: %q, want that of the highest finite cost", widest)
	}
	drives := p.all("figure", "drive")
	if len(drives) != 2 {
		t.Fatalf("%d drives", len(drives))
	}
	for i, lines := range []map[string]*lockstep.Trajectory{
		{"test": short, "baseline": long}, {"test": long, "baseline": short},
	} {
		for class, want := range lines {
			svg := drives[i].all("svg", "")[0]
			checkLine(t, svg, svg.all("path", class)[0], 0, want.Lataccel)
		}
		if label := drives[i].all("svg", "")[0].attrs["aria-label"]; !strings.Contains(label,
			"over 60 s") {
			t.Errorf("drive %d is %q, want over 60 s", i, label)
		}
	}
	for i, table := range p.all("table", "")[1:3] { // the worst, and those that the test loses
		if n := len(cells(table)); n != worstCount {
			t.Errorf("table %d has %d routes, want %d", i, n, worstCount)
		}
	}
}

func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	e := testEval(3)
	e.Baseline.Routes = e.Baseline.Routes[:2]
	if err := WriteEval(path, e); err == nil || !strings.Contains(err.Error(), "3 routes") {
		t.Errorf("other numbers of routes: %v", err)
	}
	for i := range 3 {
		e = testEval(3)
		name := "x" + e.Test.Routes[i].Name[1:]
		e.Baseline.Routes[i].Name = name
		if err := WriteEval(path, e); err == nil || !strings.Contains(err.Error(), `"`+name) {
			t.Errorf("another route %d: %v", i, err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a refused report was written")
	}
}

// TestWholeOrNot fails half way and looks at what is left.
func TestWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("half way")
	err := fileio.Write(path, func(w io.Writer) error {
		w.Write(make([]byte, 1<<20))
		return failure
	})
	if err != failure {
		t.Errorf("error %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "before" {
		t.Errorf("%d bytes were left", len(data))
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := testEval(3)
	for name, write := range map[string]func(string) error{
		"eval":    func(path string) error { return WriteEval(path, e) },
		"rollout": func(path string) error { return WriteRollout(path, Single{Run: e.Test}) },
		"csv":     func(path string) error { return WriteCSV(path, e.Costs()) },
		"parquet": func(path string) error { return WriteParquet(path, e.Costs()) },
	} {
		if err := write(filepath.Join(dir, "folder")); err == nil {
			t.Errorf("%s: a folder was replaced", name)
		}
		if err := write(filepath.Join(dir, "missing", "file")); err == nil {
			t.Errorf("%s: written into a folder that is not there", name)
		}
		target := filepath.Join(dir, "out."+name)
		if err := write(target); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 6 {
		t.Errorf("left in the folder: %v", entries)
	}
}

// TestContrast holds the colours of text to WCAG's 4.5 on every background.
func TestContrast(t *testing.T) {
	css := text("style.css")
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(css, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d sets of colours, want light, dark and print", len(blocks))
	}
	for i, block := range blocks {
		colours := map[string]string{}
		colour := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]+);`)
		for _, m := range colour.FindAllStringSubmatch(block[1], -1) {
			colours[m[1]] = m[2]
		}
		for _, pair := range [][2]string{
			{"ink", "page"}, {"ink", "card"}, {"muted", "page"}, {"muted", "card"},
			{"test-ink", "page"}, {"test-ink", "card"},
			{"baseline-ink", "page"}, {"baseline-ink", "card"}, {"warn", "warn-page"},
		} {
			if c := contrast(t, colours[pair[0]], colours[pair[1]]); c < 4.5 {
				t.Errorf("set %d: %s on %s has a contrast of %.2f", i, pair[0], pair[1], c)
			}
		}
		// Lines need 3 (non-text contrast), except the target, which is wide.
		for _, name := range []string{"test", "baseline", "ink"} {
			if c := contrast(t, colours[name], colours["card"]); c < 3 {
				t.Errorf("set %d: line %s has a contrast of %.2f", i, name, c)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	luminance := func(hex string) float64 {
		hex = strings.TrimPrefix(hex, "#")
		if len(hex) == 3 {
			hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
		}
		n, err := strconv.ParseUint(hex, 16, 32)
		if err != nil || len(hex) != 6 {
			t.Fatalf("colour %q", hex)
		}
		sum := 0.0
		for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
			c := float64(n>>(8*i)&255) / 255
			if c <= 0.03928 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.000", 1.0005: "1.000", 99.9996: "100.000", -0.0001: "0.000", -2.5: "−2.500",
		1e6: "1000000.000", 1.5e12: "1.500000e+12", -1.5e12: "-1.500000e+12", 1e9: "1.000000e+09",
		-math.MaxFloat64: "-1.797693e+308", 999999999: "999999999.000",
		161936549783.39426: "1.619365e+11",
		math.Inf(1):        "∞", math.Inf(-1): "−∞",
	} {
		if got := fixed(x); got != want {
			t.Errorf("fixed(%v) = %q, want %q", x, got, want)
		}
	}
	if fixed(0.5) != "0.500" || fixed(-0.5) != "−0.500" || signed(0.5) != "+0.500" {
		t.Errorf("%s, %s and %s", fixed(0.5), fixed(-0.5), signed(0.5))
	}
	if signed(3) != "+3.000" || signed(-3) != "−3.000" || signed(0.0001) != "0.000" ||
		fixed(math.NaN()) != "NaN" {
		t.Error("signs")
	}
}
