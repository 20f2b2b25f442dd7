// Command mutation changes a package's code in every place that one of its operators fits, and
// tells which of these mutants the tests do not see: see `make mutation`. All mutants are in one
// program, in which a variable of the environment chooses one, so that nothing is compiled or
// linked for a single mutant; each is judged by the tests that reach it. The operators are
// gremlins', those of what people forget or mix up (omissions.go), and of what they take for
// something else (confusions.go).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options say what is judged, and how much of it.
type options struct {
	tests, leave, tags, diff string
	operators                string
	seed                     uint64
	most                     int
	budget                   time.Duration
	enter                    bool
	verdicts, row            string
}

func main() {
	var o options
	flag.StringVar(
		&o.tests, "tests", "", "folders of other packages whose tests judge, too, with spaces",
	)
	flag.StringVar(&o.leave, "leave", "", "tests that do not judge: an expression")
	flag.StringVar(&o.tags, "tags", "", "of the build")
	flag.StringVar(&o.diff, "diff", "", "only lines that differ from this revision")
	flag.StringVar(
		&o.operators, "operators", ofGremlins, "which: "+strings.Join(families, ", ")+" or "+ofAll,
	)
	flag.Uint64Var(
		&o.seed, "seed", 0, "of the sample; 0: another each time, with --diff the commit's",
	)
	flag.IntVar(&o.most, "most", 400, "mutants that are judged of a package")
	flag.DurationVar(&o.budget, "budget", 0, "time after which no other mutant is judged; 0: none")
	flag.StringVar(
		&o.verdicts, "verdicts", "", "a file that keeps them: a run of the same sources and seed "+
			"goes on behind those in it",
	)
	flag.BoolVar(&o.enter, "enter", false, "enter the score into "+ledger)
	flag.StringVar(
		&o.row, "row", "", "judge nothing, and enter a row there that another runner has counted: "+
			"package, operators, seed, mutants, judged, killed and equivalent, with commas",
	)
	flag.Parse()
	do := func() error { return run(o, flag.Args()) }
	if o.row != "" {
		do = func() error { return enterCounted(o.row) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// head is the commit, as the ledger has it.
func head() (string, error) { return git("rev-parse", "--short=7", "HEAD") }

// run is called in the module's root.
func run(o options, folders []string) error {
	begin := time.Now()
	known := strings.Join(families, ", ")
	switch {
	case !slices.Contains(families, o.operators) && o.operators != ofAll:
		return fmt.Errorf("--operators %s: want %s or %s", o.operators, known, ofAll)
	case o.operators == ofAll && o.enter:
		return fmt.Errorf("a row of the ledger is of one of --operators %s", known)
	}
	commit, err := head()
	if err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = uint64(begin.UnixNano()) % 1e6
		if o.diff != "" {
			if o.seed, err = strconv.ParseUint(commit, 16, 64); err != nil {
				return err
			}
		}
	}
	changed := map[string]map[int]bool{}
	if o.diff != "" {
		if folders, changed, err = difference(o.diff); err != nil {
			return err
		}
	} else if len(folders) != 1 {
		return errors.New("want one package's folder, as in ./cmd/internal/runs")
	}
	var red []string
	for _, folder := range folders {
		folder = strings.TrimPrefix(strings.TrimSuffix(folder, "/"), "./")
		lives, err := o.report(folder, commit, begin, changed)
		if o.diff != "" && errors.As(err, new(unfit)) {
			fmt.Printf("%s: not judged: %v\n", folder, err)
		} else if err != nil {
			return err
		}
		if lives && strict(folder) {
			red = append(red, folder)
		}
	}
	if o.diff != "" && len(red) > 0 {
		return fmt.Errorf(
			"mutants of changed lines live in %s: write a test that sees them, or a row of %s "+
				"that says why none can",
			strings.Join(red, ", "), equivalents,
		)
	}
	return nil
}

// report judges a folder's package, prints what lives, and enters the score if it is to.
func (o *options) report(
	folder, commit string, begin time.Time, changed map[string]map[int]bool,
) (lives bool, err error) {
	s, err := o.score(folder, begin, changed)
	if err != nil || s == nil {
		return false, err
	}
	for _, line := range s.alive {
		fmt.Printf("%s\t%s\n", map[bool]string{true: "red", false: "shown"}[strict(folder)], line)
	}
	fmt.Printf(
		"%s: %d of %d mutants judged, %d killed (%d by time), %d equivalent: %.0f %% (%s); seed "+
			"%d, %.0f s\n",
		folder, s.judged, s.mutants, s.killed, s.late, s.equivalent, s.percent(), s.interval(),
		o.seed, time.Since(begin).Seconds(),
	)
	if s.unknown > 0 {
		fmt.Printf("%s: the machine was too busy to judge %d others\n", folder, s.unknown)
	}
	if o.enter {
		name := folder
		if o.tests != "" {
			name += ", tests of " + o.tests + " too"
		}
		err = (&ledgerRow{name, o.operators, commit, o.seed, *s}).write()
	}
	return len(s.alive) > 0, err
}

// An unfit package cannot be judged, for a reason that is no fault of its tests.
type unfit string

func (u unfit) Error() string { return string(u) }

// strict is whether a living mutant of a change is red: of engines and of arithmetic.
func strict(folder string) bool {
	for _, name := range []string{
		"reference", "batched", "gpu", "internal/f32", "internal/libm", "internal/pandas",
		"internal/policies",
	} {
		if folder == name || strings.HasPrefix(folder, name+"/") {
			return true
		}
	}
	return false
}

// score makes the mutants of a folder's package and judges them; none where nothing was changed.
func (o *options) score(
	folder string, begin time.Time, changed map[string]map[int]bool,
) (*score, error) {
	table, err := os.ReadFile(equivalents)
	if err != nil {
		return nil, err
	}
	known, err := parseEquivalents(string(table))
	if err != nil {
		return nil, err
	}
	if table, err = os.ReadFile(helpers); err != nil {
		return nil, err
	}
	b := &build{tags: o.tags, operators: o.operators}
	helping, err := parseHelpers(string(table))
	if err != nil {
		return nil, err
	}
	for _, h := range helping {
		if h.folder == folder {
			b.helping = append(b.helping, h)
		}
	}
	if b.root, err = os.Getwd(); err != nil {
		return nil, err
	}
	if b.work, err = os.MkdirTemp("", "lockstep-mutation-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.work)
	return b.score(folder, o, known, begin, changed)
}

func (b *build) score(
	folder string, o *options, known []equivalent, begin time.Time, changed map[string]map[int]bool,
) (*score, error) {
	if o.over(begin) {
		return nil, unfit("the time is over")
	}
	if err := b.list("./" + folder); err != nil {
		return nil, err
	}
	if _, err := b.rewrite(nil); err != nil {
		return nil, err
	}
	if o.diff != "" &&
		!slices.ContainsFunc(b.mutants, func(m mutant) bool { return changed[m.File][m.Line] }) {
		return nil, nil
	}
	programs, left, err := b.make(append([]string{"./" + folder}, strings.Fields(o.tests)...),
		b.helping)
	if err != nil {
		return nil, err
	}
	var mine []int // of the change, or all
	for i, m := range b.mutants {
		if o.diff == "" || changed[m.File][m.Line] {
			mine = append(mine, i)
		}
	}
	fmt.Printf(
		"%s: %d mutants, %d places left since they do not compile, after %.0f s\n", folder,
		len(mine), left, time.Since(begin).Seconds(),
	)
	var leave *regexp.Regexp
	if o.leave != "" {
		if leave, err = regexp.Compile(o.leave); err != nil {
			return nil, err
		}
	}
	tests, err := b.record(programs, leave, func() bool { return o.over(begin) })
	if err != nil {
		return nil, err
	}
	kept, err := openVerdicts(o.verdicts)
	if err != nil {
		return nil, err
	}
	of := make([]mutant, 0, len(mine))
	chosen := sample(slices.Clone(mine), o.most, o.seed)
	for n, i := range chosen {
		if o.over(begin) {
			fmt.Printf("%s: the time is over; %d of %d were judged\n", folder, n, len(chosen))
			break
		}
		if b.mutants[i].status, err = kept.judge(tests, i, b.mutants[i]); err != nil {
			return nil, err
		}
	}
	for _, i := range mine {
		of = append(of, b.mutants[i])
	}
	return count(of, known, b.lines)
}

func (o *options) over(begin time.Time) bool { return o.budget > 0 && time.Since(begin) > o.budget }

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// difference is the folders and lines of Go that are other than in a revision.
func difference(base string) (folders []string, lines map[string]map[int]bool, err error) {
	out, err := exec.Command(
		"git", "diff", "-U0", "--no-ext-diff", "--diff-filter=AMR", "--merge-base", base, "--",
		"*.go", ":!*_test.go",
	).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("git diff %s: %w", base, err)
	}
	lines = map[string]map[int]bool{}
	file := ""
	for line := range bytes.Lines(out) {
		text := strings.TrimSpace(string(line))
		if name, ok := strings.CutPrefix(text, "+++ b/"); ok {
			file, lines[name] = name, map[int]bool{}
			folder := filepath.Dir(name)
			if hidden := strings.Contains("/"+folder, "/_") ||
				strings.Contains("/"+folder+"/", "/testdata/"); !hidden &&
				!slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
		m := hunk.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		from, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, nil, err
		}
		many := 1
		if m[2] != "" {
			if many, err = strconv.Atoi(m[2]); err != nil {
				return nil, nil, err
			}
		}
		for i := range many {
			lines[file][from+i] = true
		}
	}
	slices.SortStableFunc(folders, func(a, b string) int { // what may be red comes first
		if strict(a) == strict(b) {
			return 0
		} else if strict(a) {
			return -1
		}
		return 1
	})
	return folders, lines, nil
}
