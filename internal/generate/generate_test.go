package generate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
	"lockstep/routefile"
)

// TestRouteBytes pins what seeds give. The bytes must be the same on every
// platform; GOAMD64=v3, which lets the compiler fuse multiply and add, is the
// one that is easily tried.
func TestRouteBytes(t *testing.T) {
	for _, c := range []struct {
		seed   uint64
		index  int
		sha256 string
	}{
		{1, 0, "49536e76d249560c3a0645cc5c6e0ae42df4cdb40dbedfaeacda79f47221157e"},
		{1, 1, "097a53fe76cb472e6a4bc4896d97afca50b1c28522e1b6f6bb338c2c864b9492"},
		{1, 2, "e67a2414b52f318cd34c95efa233a6e0ed0b9c6d07651881bc942a12c1f7e3e1"},
		{1, 99_999, "85cc78517fd2dbb861589c9366f7f6799c6d3001feb3b8c054ebe114946a45dc"},
		{4, 5, "cd9783cd8025f987c33a35ffa38e7c0456d96898eb78a4700f31cf8f36a80503"},
		{1<<64 - 1, 0, "5a53945e098e2c001370f6cfc34453c10158caa9fcfd51c4c4cfbdbe13854db3"},
	} {
		sum := sha256.Sum256(Route(c.seed, c.index))
		if got := hex.EncodeToString(sum[:]); got != c.sha256 {
			t.Errorf("route %d of seed %d has SHA-256 %s, want %s", c.index, c.seed, got, c.sha256)
		}
	}
}

// TestManyRouteBytes pins the first 100 routes of a seed by one hash.
func TestManyRouteBytes(t *testing.T) {
	h := sha256.New()
	for i := range 100 {
		h.Write(Route(2, i))
	}
	const want = "58898cf72f433c0a2c3b1d3a76e6302c30656fda2d2bb8a99411146a24202f3b"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("routes 0 to 99 of seed 2 have SHA-256 %s, want %s", got, want)
	}
}

// TestCar holds the car to the simulation that the default model learned from.
func TestCar(t *testing.T) {
	f, err := os.Open("testdata/car.txt") // golden/default_model/car.py wrote it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c car
	lines := bufio.NewScanner(f)
	n := 0
	for ; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if n == 0 {
			c.offset = hexFloat(t, words[1])
			continue
		}
		var x [7]float64
		for i := range x {
			x[i] = hexFloat(t, words[i])
		}
		c.drive(x[0], x[1], x[2], x[3])
		if got, want := [3]float64{c.torque, c.angle, c.lataccel}, [3]float64(x[4:]); got != want {
			t.Fatalf("line %d: torque, angle, lataccel %x, want %x", n+1, got, want)
		}
	}
	if err := lines.Err(); err != nil || n != 161 {
		t.Errorf("%d lines, %v; want 161", n, err)
	}
}

func hexFloat(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestFormat checks a file's outer form, which Python's csv and pandas give to
// the challenge's files.
func TestFormat(t *testing.T) {
	for k := range 20 {
		text := string(Route(3, k))
		lines := strings.SplitAfter(text, "\n")
		if len(lines) != rows+2 || lines[rows+1] != "" ||
			lines[0] != "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n" {
			t.Fatalf(
				"route %d: %d lines, the first %q, the last %q", k, len(lines), lines[0],
				lines[len(lines)-1])
		}
		for i, line := range lines[1 : rows+1] {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), ",")
			if len(fields) != 6 {
				t.Fatalf("route %d, row %d: %d fields", k, i, len(fields))
			}
			if steered := fields[5] != ""; steered != (i < lockstep.ControlStartIdx) {
				t.Errorf("route %d, row %d: steer command %q", k, i, fields[5])
				continue
			}
			for _, field := range fields {
				x, err := strconv.ParseFloat(field, 64)
				if field != "" &&
					(err != nil || string(number(nil, x)) != field ||
						!strings.ContainsAny(field, ".e")) {
					t.Errorf("route %d, row %d: %q is not as Python writes a float", k, i, field)
				}
			}
		}
		route(t, 3, k) // can be loaded
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{ // from Python's repr
		0: "0.0", 1: "1.0", -30.5: "-30.5", 0.1: "0.1", 59.9: "59.9", 0.0001: "0.0001",
		0.00001: "1e-05",
		-2.5e-7: "-2.5e-07", 1.0 / 3: "0.3333333333333333", 1e-300: "1e-300",
	} {
		if got := string(number(nil, x)); got != want {
			t.Errorf("number(%g) = %q, want %q", x, got, want)
		}
	}
}

// TestSeedsDiffer: seeds and indices, also their low and high bits, give routes of their own.
func TestSeedsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, seed := range []uint64{0, 1, 2, 1 << 32, 1 << 63} {
		for _, k := range []int{0, 1, 2, 1 << 16, 1 << 32} {
			text, name := string(Route(seed, k)), strconv.FormatUint(seed, 10)+"/"+strconv.Itoa(k)
			if other, ok := seen[text]; ok {
				t.Errorf("%s is %s", name, other)
			}
			seen[text] = name
		}
	}
}

func TestSine(t *testing.T) {
	for x, want := range map[float64]float64{
		0:     0,
		0.05:  0.04997916927067833,
		-0.15: -0.14943813247359922,
		0.2:   0.19866933079506122,
	} {
		if got := sine(x); got-want > 2e-12 || want-got > 2e-12 {
			t.Errorf("sine(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestKindsAddUp(t *testing.T) {
	sum := 0
	for _, k := range kinds {
		sum += k.share
	}
	if sum != 100 {
		t.Errorf("the shares of the kinds add up to %d, want 100", sum)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "routes")
	var progress []int
	opts := Options{
		NumRoutes: 3, Seed: 1<<40 + 5,
		Progress: func(done int) { progress = append(progress, done) },
	}
	if err := Write(t.Context(), dir, opts); err != nil {
		t.Fatal(err)
	}
	if len(progress) != 3 || progress[2] != 3 {
		t.Errorf("progress %v, want 1 2 3", progress)
	}
	opts.NumRoutes, opts.Progress = 5, nil
	if err := Write(t.Context(), dir, opts); err != nil { // more of the same seed
		t.Fatal(err)
	}
	files, err := routefile.List(dir, -1)
	if err != nil || len(files) != 5 {
		t.Fatalf("%d files, %v; want 5", len(files), err)
	}
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) != FileName(i) || !bytes.Equal(data, Route(1<<40+5, i)) {
			t.Errorf("%s is not route %d of its seed", file, i)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 5 {
		t.Errorf("%d entries in the folder, want 5", len(entries))
	}

	opts.Seed = 6
	if err := Write(t.Context(), dir, opts); err == nil ||
		!strings.Contains(err.Error(), "other bytes") {
		t.Errorf("another seed into the same folder: %v", err)
	}
	data, err := os.ReadFile(files[0])
	if err := errors.Join(err, simtest.Same("the other seed's file", data,
		Route(1<<40+5, 0))); err != nil {
		t.Error(err)
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, n := range []int{-1, 0, MaxRoutes + 1} {
		if err := Write(t.Context(), t.TempDir(), Options{NumRoutes: n}); err == nil {
			t.Errorf("%d routes: no error", n)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Write(ended, dir, Options{NumRoutes: MaxRoutes}); err != context.Canceled {
		t.Errorf("as many routes as there may be: %v", err)
	}
	err := Write(ctx, dir, Options{NumRoutes: 10, Progress: func(done int) {
		if done == 2 {
			stop()
		}
	}})
	if entries, _ := os.ReadDir(dir); !errors.Is(err, context.Canceled) || len(entries) != 2 {
		t.Errorf("stopped after 2 routes: %v, %d files", err, len(entries))
	}
	first := filepath.Join(dir, FileName(0))
	route := Route(0, 0)
	n := len(route)
	others := map[string][]byte{
		"empty": {}, "cut off": route[:n-1], "half": route[:n/2],
		"longer": append(slices.Clone(route), '\n'),
	}
	for _, at := range []int{0, len(header), n - 2} {
		other := slices.Clone(route)
		other[at] ^= 1 // as long, and one bit of it is another
		others[fmt.Sprintf("another in byte %d", at)] = other
	}
	for what, other := range others {
		if err := os.WriteFile(first, other, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Write(t.Context(), dir, Options{NumRoutes: 1}); err == nil ||
			!strings.Contains(err.Error(), "other bytes") {
			t.Errorf("a file that is %s is taken for the route's: %v", what, err)
		}
	}
	if err := Write(t.Context(), first, Options{NumRoutes: 1}); err == nil {
		t.Error("a file as folder: no error")
	}
}

func BenchmarkRoute(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		Route(1, i)
	}
}
