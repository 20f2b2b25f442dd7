package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/golden"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/internal/group"
	"lockstep/internal/want"
)

// A block is what stands between two fences of a page. Comments before it, which no
// reader sees, say what the test does not do as typed, and why:
//
//	<!-- left out: REASON -->        the whole block
//	<!-- left out
//	BEGINNING OF A LINE: REASON
//	-->                              those of its lines that begin so
//	<!-- wants
//	BEGINNING OF A LINE: WANT
//	-->                              the same where the want is not here
//	<!-- wants: WANT -->             the whole block where it is not
//
// A want of a shell block is one of package want, that of a Python block a module.
type block struct {
	page     string
	line     int // of its opening fence
	language string
	lines    []string // without those that are left out; continued lines are one
	leftOut  int      // lines
	reason   string   // why the whole block is left out, or empty
	wants    []mark
	output   *block // what the page shows as the block's output, or nil
}

// A mark is about the lines of a block that begin so.
type mark struct{ line, text string }

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// blocks are all of the documentation, by their pages, in the order of the text.
func blocks(t *testing.T) map[string][]*block {
	t.Helper()
	all := map[string][]*block{}
	files(t, func(path, text string) {
		page := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		found, err := readBlocks(page, text)
		if err != nil {
			t.Error(err)
		}
		if len(found) > 0 {
			all[page] = found
		}
	}, ".md")
	return all
}

// readBlocks takes a page apart.
func readBlocks(page, text string) (all []*block, err error) {
	lines := strings.Split(text, "\n")
	var last *block // which a block of output may follow
	for i := 0; i < len(lines); i++ {
		language, fenced := strings.CutPrefix(lines[i], "```")
		if !fenced {
			if strings.TrimSpace(lines[i]) != "" && !strings.HasPrefix(lines[i], "<!--") {
				last = nil
			}
			continue
		}
		b := &block{page: page, line: i + 1, language: language}
		if b.language == "" {
			b.language = "sh"
		}
		before := strings.Join(lines[:i], "\n")
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			b.lines = append(b.lines, lines[i])
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s: the block has no end", b)
		}
		if b.language == "output" {
			if last == nil {
				return nil, fmt.Errorf("%s: no block stands before what is shown as output", b)
			}
			last.output = b
			last = nil
			continue
		}
		if err := b.readMarks(before); err != nil {
			return nil, err
		}
		all, last = append(all, b), b
	}
	return all, nil
}

// readMarks applies the comments at the end of the text before a block.
func (b *block) readMarks(before string) error {
	if b.language == "sh" {
		b.join()
	}
	for {
		text, ends := strings.CutSuffix(strings.TrimSpace(before), "-->")
		begin := strings.LastIndex(text, "<!--")
		if !ends || begin < 0 {
			break
		}
		body := strings.TrimSpace(text[begin+len("<!--"):])
		before = text[:begin]
		head, rest, _ := strings.Cut(body, "\n")
		if reason, whole := strings.CutPrefix(head, "left out: "); whole {
			b.reason = strings.TrimSpace(reason + "\n" + rest)
			b.leftOut += b.commands()
			continue
		}
		if module, whole := strings.CutPrefix(head, "wants: "); whole {
			b.wants = append(b.wants, mark{"", module})
			continue
		}
		if head != "left out" && head != "wants" {
			return fmt.Errorf(
				"%s: the comment before the block begins with %q: want left out, or wants", b, head,
			)
		}
		for line := range strings.Lines(rest) {
			begins, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok || text == "" {
				return fmt.Errorf(
					"%s: %q in the comment before the block: want the beginning of a line, a "+
						"colon and a reason",
					b, line,
				)
			}
			if !b.mark(head, begins, text) {
				return fmt.Errorf(
					"%s: the comment before the block speaks of %q, and no line begins so", b,
					begins,
				)
			}
		}
	}
	known := slices.Contains([]string{"sh", "python"}, b.language)
	if !known && b.reason == "" {
		return fmt.Errorf(
			"%s: a block of %q is neither run nor left out for a reason", b, b.language,
		)
	}
	return nil
}

// mark applies one line of a comment, and reports whether the block has such lines.
func (b *block) mark(head, begins, text string) bool {
	has := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), begins) }
	if !slices.ContainsFunc(b.lines, has) {
		return false
	}
	if head == "wants" {
		b.wants = append(b.wants, mark{begins, text})
		return true
	}
	b.drop(begins)
	return true
}

// drop leaves the lines out that begin so.
func (b *block) drop(begins string) {
	n := b.commands()
	b.lines = slices.DeleteFunc(
		b.lines,
		func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), begins) },
	)
	b.leftOut += n - b.commands()
}

// join makes one line of a command that goes on behind a backslash.
func (b *block) join() {
	b.lines = strings.Split(strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", ""), "\n")
}

// commands counts the lines that do something.
func (b *block) commands() (n int) {
	for _, line := range b.lines {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// count is what was run and what was not.
type count struct{ blocks, ran, leftOut, lacking int }

// runBlocks runs those of a language, page by page, each in a folder with what it may
// name. lacks says why a want is not here, or nil.
func runBlocks(
	t *testing.T, language string, lacks func(name string) error,
	run func(t *testing.T, all []*block, folder string),
) {
	var sum count
	for page, all := range blocks(t) {
		all = slices.DeleteFunc(all, func(b *block) bool { return b.language != language })
		t.Run(strings.ReplaceAll(page, "/", "_"), func(t *testing.T) {
			var running []*block
			for _, b := range all {
				sum.blocks++
				sum.leftOut += b.leftOut
				if b.reason != "" {
					t.Logf("%s: left out: %s", b, b.reason)
					continue
				}
				for _, m := range b.wants {
					if reason := lacks(m.text); reason != nil {
						n := b.leftOut
						b.drop(m.line)
						sum.lacking += b.leftOut - n
						b.output = nil
						t.Run(
							fmt.Sprint(b.line, " ", m.text),
							func(t *testing.T) { want.Skip(t, reason) },
						)
					}
				}
				if sum.ran += b.commands(); b.commands() > 0 {
					running = append(running, b)
				}
			}
			if len(running) > 0 {
				run(t, running, scratch(t))
			}
		})
	}
	t.Logf(
		"%d blocks of %s: %d lines were run, %d are left out for a reason, %d lack something here",
		sum.blocks, language, sum.ran, sum.leftOut, sum.lacking,
	)
	if sum.ran == 0 {
		t.Errorf("no block of %s was run", language)
	}
}

// TestReadBlocks: what is neither run nor left out for a reason is an error, and so is a
// comment about nothing.
func TestReadBlocks(t *testing.T) {
	for text, want := range map[string]string{
		"```\ntrue":          "p.md:1: the block has no end",
		"```go\nx := 1\n```": `p.md:1: a block of "go" is neither run nor left out for a reason`,
		"<!-- left out: -->\n```\ntrue\n```": `p.md:2: the comment before the block begins with ` +
			`"left out:": want left out, or wants`,
		"<!-- left out\ntrue\n-->\n```\ntrue\n```": `p.md:4: "true" in the comment before ` +
			`the block: want the beginning of a line, a colon and a reason`,
		"<!-- left out\nfalse: fails\n-->\n```\na\n```": `p.md:4: the comment before the block ` +
			`speaks of "false", and no line begins so`,
		"text\n```output\nx\n```": "p.md:2: no block stands before what " +
			"is shown as output",
	} {
		if _, err := readBlocks("p.md", text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}

	all, err := readBlocks(
		"p.md",
		"<!-- left out\nb: slow\n-->\n\n<!-- wants\nc: python\n-->\n```\na \\\n x\nb\nc # "+
			"d\n```\n\n```output\ny\n```\n",
	)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	got := []any{all[0].lines, all[0].leftOut, len(all[0].wants), all[0].output.lines}
	if d := cmp.Diff([]any{[]string{"a  x", "c # d"}, 1, 1, []string{"y"}}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestPagesBegin: each page of this folder, and README, begins with a command or a program:
// nothing but a few words stands before it, and the tests run at least a line of it, or its
// comment names the make target that does.
func TestPagesBegin(t *testing.T) {
	texts := map[string]string{}
	files(t, func(path, text string) {
		texts[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = text
	}, ".md")
	all := blocks(t)
	for page, text := range texts {
		if page != "README.md" && filepath.Dir(page) != "docs" {
			continue
		}
		if len(all[page]) == 0 {
			t.Errorf("%s has no command", page)
			continue
		}
		first := all[page][0]
		before := strings.Join(strings.Split(text, "\n")[:first.line-1], "\n")
		before, _, _ = strings.Cut(before, "<!--")
		most := 30
		if page == "README.md" { // its sentence and its picture
			most = 90
		}
		if n := len(strings.Fields(before)); n > most {
			t.Errorf("%s: %d words stand before the first command, want %d at most", first, n, most)
		}
		if first.commands() == 0 ||
			first.reason != "" && !strings.Contains(first.reason, "make ") &&
				!strings.Contains(first.reason, "CI begins") {
			t.Errorf("%s: the page begins with a block that is not run", first)
		}
	}
}

// TestShellBlocks types what the documentation shows.
func TestShellBlocks(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	lacks := func(name string) error {
		w := want.ByName(name)
		if w == nil {
			return fmt.Errorf(
				"a block wants %q: want one of %s", name, strings.Join(want.Names(), ", "),
			)
		}
		_, err := w.Find()
		return w.Lacks(err)
	}
	runBlocks(t, "sh", lacks, func(t *testing.T, all []*block, folder string) {
		for _, b := range all {
			script := "set -euo pipefail\ntrap 'echo \"ended with $?: $BASH_COMMAND\" >&2' ERR\n" +
				strings.Join(
					b.lines,
					"\n",
				)
			if stdout, ok := execute(t, b.String(), folder, bash, "-c", script); ok {
				b.compare(t, stdout)
			}
		}
	})
}

// ends separates what blocks of Python print.
const ends = "\x1e"

// TestPythonBlocks runs what the documentation shows of Python in one where nothing but
// the package was installed. A page is one program.
func TestPythonBlocks(t *testing.T) {
	python := want.Package.Need(t)
	lacks := func(module string) error {
		if out, err := exec.Command(python, "-c", "import "+module).CombinedOutput(); err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return want.Package.Lacks(fmt.Errorf("%s: %s", python, lines[len(lines)-1]))
		}
		return nil
	}
	runBlocks(t, "python", lacks, func(t *testing.T, all []*block, folder string) {
		var script strings.Builder
		for _, b := range all {
			// Compiled by itself, so that an error names the page and the line.
			text := strings.Repeat("\n", b.line) + strings.Join(b.lines, "\n") + "\n"
			fmt.Fprintf(&script, "exec(compile(%q, %q, 'exec'))\nprint(%q)\n", text, b.page, ends)
		}
		stdout, ok := execute(t, all[0].page, folder, python, "-W", "ignore", "-c", script.String())
		if !ok {
			return
		}
		for i, text := range strings.Split(stdout, ends+"\n")[:len(all)] {
			all[i].compare(t, text)
		}
	})
}

// execute runs a program that does what a page says, and returns what it prints.
func execute(t *testing.T, what, folder, program string, args ...string) (printed string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := group.Command(ctx, program, args...)
	command.Dir, command.Env, command.WaitDelay = folder, surroundings(t, folder), time.Second
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		t.Errorf(
			"%s does not run as typed: %v\n%s\n%s", what, err, tail(stdout.String()),
			tail(stderr.String()),
		)
		return "", false
	}
	used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	t.Logf("%s: run, in %.1f s of CPU", what, used.Seconds())
	return stdout.String(), true
}

// compare holds what a block has printed to what the page shows, if it shows anything.
func (b *block) compare(t *testing.T, printed string) {
	t.Helper()
	if b.output == nil {
		return
	}
	if d := cmp.Diff(strings.Join(b.output.lines, "\n")+"\n", printed); d != "" {
		t.Errorf("%s (-shown +printed):\n%s", b.output, d)
	}
}

// tail is the end of a text, which says why a program ended.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// surroundings are a newcomer's environment: nothing of the user's but what programs
// need to be found.
func surroundings(t *testing.T, folder string) []string {
	t.Helper()
	env := []string{
		"HOME=" + filepath.Join(folder, ".home"),
		"PATH=" + filepath.Join(folder, "bin") + string(filepath.ListSeparator) + os.Getenv("PATH"),
	}
	for _, name := range []string{
		"CXX", "LD_LIBRARY_PATH", "TMPDIR", "OPENBLAS_THREAD_TIMEOUT",
	} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	if library, err := want.ONNXRuntime.Find(); err == nil {
		env = append(env, "ONNXRUNTIME_LIB="+library)
	}
	if python, err := want.Python.Find(); err == nil {
		env = append(env, "LOCKSTEP_PYTHON="+python)
	}
	return env
}

// rows keeps routes short, so that searches end soon.
const rows = 106

// scratch is a folder with what the pages name: the program, two short routes, the
// project's own network under the name of the challenge's, a controller, gains,
// a trace,
// and the sources, as in a clone.
func scratch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bin", "data", "assets", "models", "controllers", ".home"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	network, routes, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("models/tinyphysics.onnx", read(t, network))
	entries, err := os.ReadDir(routes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		lines := strings.SplitAfter(string(read(t, filepath.Join(routes, entries[i].Name()))), "\n")
		write(fmt.Sprintf("data/%05d.csv", i), []byte(strings.Join(lines[:rows+1], "")))
	}
	// Where no routes are named, those of ./assets are taken, fewer than the built-in ones.
	link(t, filepath.Join(dir, "data"), filepath.Join(dir, "assets", "routes"))
	write(
		"controllers/mine.py",
		[]byte(
			"class Controller:\n    def update(self, target_lataccel, current_lataccel, state, "+
				"future_plan):\n        return 0.3 * (target_lataccel - current_lataccel)\n",
		),
	)
	write("grid.txt", []byte("0.195,0.1,-0.053\n0.3,0.05,-0.1\n"))
	link(t, built(t), filepath.Join(dir, "bin", "lockstep"))
	recordings(t, dir)
	sources(t, dir)
	// It is the same for each page: made in the folder of the first.
	kept := filepath.Join(filepath.Dir(built(t)), "mine.trace")
	if _, err := os.Stat(kept); err != nil {
		trace := exec.Command(built(t), "rollout", "--data_path", "data", "--trace", kept)
		trace.Dir, trace.Env = dir, surroundings(t, dir)
		if out, err := trace.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	write("mine.trace", read(t, kept))
	return dir
}

// sources links to those of the clone, but for what stands in the folder already.
func sources(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") ||
			slices.Contains([]string{"build", "bin", "dist", "assets"}, e.Name()) {
			continue
		}
		link(t, filepath.Join(root, e.Name()), filepath.Join(dir, e.Name()))
	}
	// What is compiled for this machine and what its Python answered is kept between runs, what
	// was downloaded is not seen.
	cache := filepath.Join(dir, ".home", ".cache", "lockstep")
	if err := os.MkdirAll(cache, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"emulated", "profiles"} {
		if kept, err := fileio.CacheDir(name); err == nil && os.MkdirAll(kept, 0o755) == nil {
			link(t, kept, filepath.Join(cache, name))
		}
	}
}

// recordings are those of the clone, but of the project's network the first two of each profile: on
// all of them TestTrajectory of parity holds the engines to Python.
func recordings(t *testing.T, dir string) {
	t.Helper()
	of, err := filepath.Abs("../golden")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "golden")
	sets := filepath.Join("testdata", "default")
	for _, folder := range []string{"", "testdata", sets} {
		entries, err := os.ReadDir(filepath.Join(of, folder))
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, folder), 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(folder, e.Name())
			switch {
			case folder == sets:
				few(t, filepath.Join(of, name), filepath.Join(dir, name))
			case name != "testdata" && name != sets:
				link(t, filepath.Join(of, name), filepath.Join(dir, name))
			}
		}
	}
}

// few makes a set of the first two recordings of another.
func few(t *testing.T, from, to string) {
	t.Helper()
	const list = "provenance.json"
	set, err := golden.OpenSet(from)
	if err == nil {
		err = os.Mkdir(to, 0o777)
	}
	var all map[string]any
	if err == nil {
		err = json.Unmarshal(read(t, filepath.Join(from, list)), &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	all["recordings"] = all["recordings"].([]any)[:2]
	for _, e := range set.Recordings[:2] {
		link(t, filepath.Join(from, e.File), filepath.Join(to, e.File))
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(to, list), text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(from, to); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var program string // the built command

// built is the path of the command, which is built once.
func built(t *testing.T) string {
	t.Helper()
	if program == "" {
		dir, err := os.MkdirTemp("", "lockstep-docs-*")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "lockstep")
		if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path,
			"lockstep/cmd/lockstep").CombinedOutput(); err != nil {
			os.RemoveAll(dir)
			t.Fatalf("%v\n%s", err, out)
		}
		program = path
	}
	return program
}

func TestMain(m *testing.M) {
	status := m.Run()
	if program != "" {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(status)
}
