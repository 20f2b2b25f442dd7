package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/gpu/driver/cuda"
	"lockstep/gpu/hardware"
	"lockstep/internal/fileio"
)

// A step is a part of the first minutes on a GPU.
type step struct {
	name string
	// share is how much of the deadline it may take at most, in hundredths. What one
	// leaves over, the last ones have.
	share int
	run   func(*recorder, context.Context) error
	// done are the outcomes that make it needless, where an earlier command has them.
	done func(*hardware.Evidence) bool
}

const (
	benchOneName = "bench of the first case"
	ptxName      = "ptx"

	challengeName = "challenge"
	profileName   = "profile"
)

// steps are the order of the first minutes: what decides whether the kernels are right, how
// fast they are, why, whether they are clean; then what a later command may also do.
func steps() []step {
	others := func(name string) func(*hardware.Evidence) bool {
		return func(e *hardware.Evidence) bool { return passed(e.Others, name) }
	}
	all := []step{
		{"tests", 26, (*recorder).tests, (*hardware.Evidence).Tested},
		{
			challengeName, 2, (*recorder).challenge,
			func(e *hardware.Evidence) bool { return e.Challenge != "" },
		},
		{benchOneName, 6, (*recorder).benchOne, others(benchOneName)},
		{profileName, 12, (*recorder).profile, others(profileName)},
	}
	for _, tool := range []string{"racecheck", "memcheck", "initcheck", "synccheck"} {
		all = append(
			all,
			step{
				tool, 11,
				func(r *recorder, ctx context.Context) error { return r.sanitize(ctx, tool) },
				func(e *hardware.Evidence) bool { return passed(e.Sanitizer, tool) },
			},
		)
	}
	return append(all,
		step{ptxName, 10, (*recorder).ptx, others(ptxName)},
		step{"bench", 100, (*recorder).bench, others("bench")})
}

func passed(list []hardware.TestOutcome, name string) bool {
	return slices.ContainsFunc(
		list, func(o hardware.TestOutcome) bool {
			return o.Name == name && o.Result == hardware.Pass
		},
	)
}

// verb is what the words ask for, but for the folder, which is the last of them.
func (r *recorder) verb(words []string) (func(context.Context) error, error) {
	verbs := map[string]func(context.Context) error{
		"first":       r.first,
		"tests":       r.tests,
		challengeName: r.challenge,
		"ptx":         r.ptx,
		"bench":       r.bench,
		profileName:   r.profile,
	}
	if len(words) == 2 && verbs[words[0]] != nil {
		return verbs[words[0]], nil
	}
	if len(words) == 3 && words[0] == "sanitize" &&
		slices.Contains(hardware.Sanitizers(), words[1]) {
		return func(ctx context.Context) error { return r.sanitize(ctx, words[1]) }, nil
	}
	return nil, fmt.Errorf(
		"%s, with TOOL one of %s", usage, strings.Join(hardware.Sanitizers(), ", "),
	)
}

// first does the steps that no earlier command has done, each within its share of the
// deadline, whatever came of those before, and packs what they have left.
func (r *recorder) first(ctx context.Context) error {
	begin := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		return errors.New("first wants a deadline")
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(r.out, r.base()+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	r.say = io.MultiWriter(r.say, log)
	var failed []error
	for _, s := range steps() {
		if s.done(r.evidence) {
			fmt.Fprintf(r.say, "== %s: an earlier command has done it\n", s.name)
			continue
		}
		limit := deadline.Sub(begin) * time.Duration(s.share) / 100
		part, cancel := context.WithTimeoutCause(
			ctx, limit,
			fmt.Errorf("its share of the deadline, %v, ended it", limit.Round(time.Second)),
		)
		if err := s.run(r, part); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
		cancel()
		fmt.Fprintf(r.say, "== %v after the beginning\n", time.Since(begin).Round(time.Second))
	}
	return errors.Join(append(failed, r.save(), r.pack())...)
}

// base is the name of what belongs to this GPU, without an extension.
func (r *recorder) base() string {
	return strings.TrimSuffix(hardware.FileName(r.evidence.Device), ".json")
}

// pack puts all of this GPU's files into one archive, and removes them but the evidence,
// from which a later command goes on, and what earlier commands have packed.
func (r *recorder) pack() error {
	names, err := filepath.Glob(filepath.Join(r.out, r.base()+".*"))
	if err != nil {
		return err
	}
	evidence := filepath.Join(r.out, hardware.FileName(r.evidence.Device))
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	var last []string
	for _, name := range names {
		if strings.HasSuffix(name, ".tar.gz") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		err = archive.WriteHeader(&tar.Header{
			Name:    filepath.Base(name),
			Mode:    0o644,
			Size:    int64(len(data)),
			ModTime: time.Now(),
		})
		if err == nil {
			_, err = archive.Write(data)
		}
		if err != nil {
			return err
		}
		if name != evidence {
			last = append(last, name)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return err
	}
	to := filepath.Join(
		r.out, fmt.Sprintf("%s.%s.tar.gz", r.base(), time.Now().UTC().Format("20060102-150405")),
	)
	if err := fileio.WriteFile(to, packed.Bytes()); err != nil {
		return err
	}
	for _, name := range last {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d bytes\n", to, packed.Len())
	return nil
}

// ptx runs TestShort for one size of block with the PTX, which the driver compiles for the
// GPU that it finds.
func (r *recorder) ptx(ctx context.Context) error {
	o := hardware.TestOutcome{Name: ptxName, Result: hardware.NotRun}
	result, ran := "", 0
	before := os.Getenv(cuda.KernelsVariable)
	os.Setenv(cuda.KernelsVariable, "ptx")
	defer os.Setenv(cuda.KernelsVariable, before)
	err := r.program(ctx, func(line string) error {
		if m := outcomeLine.FindStringSubmatch(line); m != nil && m[2] == "TestShort" {
			result = words[m[1]]
		} else if strings.Contains(line, "--- PASS: TestShort/") {
			ran++
		}
		return nil
	}, "./gpu.test", "-test.run=^TestShort$/blocks_of_6$", "-test.v", "-test.timeout=0")
	switch {
	case ctx.Err() != nil:
		o.Note = context.Cause(ctx).Error()
	case result == hardware.Fail || result == hardware.Pass && err == nil && ran > 0:
		o.Result = result
	case err != nil:
		o.Note = err.Error()
	default:
		o.Note = "the test was not run"
	}
	return r.note(&r.evidence.Others, o)
}
