//go:build cgo

package native

import (
	"os"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/classic"
	"lockstep/engines"
	"lockstep/internal/generate"
)

// TestPick: routes are those at their positions; others are refused by number.
func TestPick(t *testing.T) {
	all := routes{{Name: "a"}, {Name: "b"}}
	handle := put(all)
	defer drop(handle)
	picked, err := pick(handle, []int{1, 0, 1})
	if err != nil || !slices.Equal(picked, routes{all[1], all[0], all[1]}) {
		t.Errorf("%v, %v", picked, err)
	}
	for position, want := range map[int]string{-1: "route -1 of 2", 2: "route 2 of 2"} {
		if _, err := pick(handle, []int{0, position}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLaidOut: a buffer has what its request says, no byte less and none more.
func TestLaidOut(t *testing.T) {
	task, err := classic.Make("CartPole-v1", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := engines.Classic().Open("", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := engine.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	e := &environments{turn: newTurn(), Vector: v}
	defer e.Close()
	q := runRequest{Steps: 3, Record: []string{"rewards", "terminated"}} // 6 of 8 bytes, 6 of 1
	for size, want := range map[int]string{
		54: "", 55: "a buffer with 1 bytes more than asked for",
		53: "a buffer that lacks 1 bytes", 47: "a buffer that lacks 1 bytes",
	} {
		_, record, err := e.laidOut(q, make([]byte, size))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want || err == nil && len(record) != 3 {
			t.Errorf("%d bytes: %q, %d steps; want %q", size, got, len(record), want)
		}
	}
}

// TestObserve: a buffer of places has room for them and for what is observed there.
func TestObserve(t *testing.T) {
	e := &experience{nil, &lockstep.Experience{}}
	for _, c := range []struct {
		places, bytes int
		want          string
	}{
		{0, 0, "0 places"},
		{0, 8, "0 places"},
		{-1, 8, "-1 places"},
		{2, 15, "2 places"},
		{2, 16, "a buffer of 0 bytes"},
	} {
		_, err := observe(nil, e, struct{ Places int }{c.places}, make([]byte, c.bytes))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%d places in %d bytes: %v, want %s", c.places, c.bytes, err, c.want)
		}
	}
}

// TestLoad: no path is no route; the cache keeps routes where there are several, and is asked to.
func TestLoad(t *testing.T) {
	s := opened(t)
	cache, folder := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	if err := generate.Write(t.Context(), folder, generate.Options{NumRoutes: 2}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q     loadRequest
		want  int
		keeps bool
	}{
		{loadRequest{Cache: true}, 0, false},
		{loadRequest{Paths: []string{folder}, Limit: 1, Cache: true}, 1, false},
		{loadRequest{Paths: []string{folder}, Limit: -1}, 2, false},
		{loadRequest{Paths: []string{folder}, Limit: -1, Cache: true}, 2, true},
	} {
		c.q.Workers = 1
		answer, err := load(begin("load", 0, "", nil), s, c.q, nil)
		if err != nil {
			t.Fatalf("%+v: %v", c.q, err)
		}
		a := answer.(loadAnswer)
		defer drop(a.Handle)
		kept, err := os.ReadDir(cache)
		if all, _ := get[routes](a.Handle); err != nil || len(all) != c.want ||
			len(a.Names) != c.want || (len(kept) > 0) != c.keeps {
			t.Errorf("%+v: %v, the cache has %v, %v", c.q, a.Names, kept, err)
		}
	}
}
