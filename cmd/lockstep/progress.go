package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress tells how far something is: a bar on a terminal, and elsewhere a line
// every ten seconds, so that a log shows that a long run lives.
type progress struct {
	bar  *progressbar.ProgressBar
	done atomic.Int64
	end  chan struct{} // ends the lines; nil on a terminal
}

// newProgress begins the progress of n of something, such as "rollouts".
func newProgress(w io.Writer, n int, what string) *progress {
	f, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd()))
	p := &progress{bar: progressbar.NewOptions(n,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetVisibility(terminal),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString(what),
		progressbar.OptionThrottle(100*time.Millisecond),
	)}
	if !terminal {
		p.end = make(chan struct{})
		go p.lines(w, n, what)
	}
	return p
}

// progressEvery is how often a line comes.
const progressEvery = 10 * time.Second

func (p *progress) lines(w io.Writer, n int, what string) {
	start := time.Now()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.end:
			return
		case <-ticker.C:
			done := int(p.done.Load())
			fmt.Fprintf(w, "lockstep: %s\n", describeProgress(done, n, what, float64(done)/time.Since(start).Seconds()))
		}
	}
}

// describeProgress says how many of n are done, and how long the rest takes at a rate.
func describeProgress(done, n int, what string, perSecond float64) string {
	text := fmt.Sprintf("%d of %d %s", done, n, what)
	if perSecond > 0 && done < n {
		left := time.Duration(float64(n-done) / perSecond * float64(time.Second))
		text += fmt.Sprintf(", %.3g/s, %v left", perSecond, left.Round(time.Second))
	}
	return text
}

// Add counts n more. It may be called from any goroutine.
func (p *progress) Add(n int) {
	p.done.Add(int64(n))
	p.bar.Add(n)
}

// Set says that n are done.
func (p *progress) Set(n int) {
	p.done.Store(int64(n))
	p.bar.Set(n)
}

// Clear ends the progress and takes the bar away.
func (p *progress) Clear() {
	if p.end != nil {
		close(p.end)
	}
	p.bar.Clear()
}
