package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// leftovers are what commands have left behind of which nobody was told: temporary files, and
// processes of Python controllers, which Linux lists; and complaints on standard output. TestMain
// fails of them.
var leftovers struct {
	sync.Mutex
	running, begun int // commands in this process
	found          []string
}

// watched runs a command, and notes what it leaves behind if no other ran beside it.
func watched(args []string, run func() int) int {
	l := &leftovers
	l.Lock()
	l.running, l.begun = l.running+1, l.begun+1
	alone, mine := l.running == 1, l.begun
	before := temporary()
	l.Unlock()
	status := run()
	l.Lock()
	defer l.Unlock()
	l.running--
	if !alone || l.begun != mine {
		return status
	}
	found := slices.DeleteFunc(temporary(), func(name string) bool {
		return slices.Contains(before, name)
	})
	pythons := children()
	for end := time.Now().Add(2 * time.Second); len(pythons) > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // they may be ending
		pythons = children()
	}
	if found = append(found, pythons...); len(found) > 0 {
		l.found = append(l.found, fmt.Sprintf("%q leaves %q", args, found))
	}
	return status
}

// temporary are the temporary files of commands.
func temporary() []string {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), "lockstep-*"))
	return slices.DeleteFunc(found, func(name string) bool {
		return !strings.Contains(name, "-export-") && !strings.Contains(name, "-probe-") &&
			!strings.Contains(name, "-upstream-")
	})
}

// children are the command lines of this process's children that are Pythons.
func children() (pythons []string) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, id := range strings.Fields(string(text)) {
			words, _ := os.ReadFile(filepath.Join("/proc", id, "cmdline")) // none of one that ended
			if line := strings.ReplaceAll(string(words), "\x00", " "); strings.Contains(
				line, "python") {
				pythons = append(pythons, fmt.Sprintf("process %s, %.60s", id, line))
			}
		}
	}
	return pythons
}
