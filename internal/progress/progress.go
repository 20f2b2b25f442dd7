// Package progress tells how far something is: by a bar on a terminal, and elsewhere by
// a line every ten seconds, so that a log shows that a long run lives.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"lockstep/internal/plain"
)

// Every is how often a line comes.
const Every = 10 * time.Second

// Bar is how far something is.
type Bar struct {
	bar  *progressbar.ProgressBar
	done atomic.Int64
	of   atomic.Int64
	end  chan struct{} // ends the lines; nil on a terminal
}

// New begins the progress of n of something, such as "rollouts".
func New(w io.Writer, n int, what string) *Bar {
	terminal := Terminal(w)
	w = plain.Raw(w)
	p := &Bar{bar: progressbar.NewOptions(n,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetVisibility(terminal),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString(what),
		progressbar.OptionThrottle(100*time.Millisecond),
	)}
	p.of.Store(int64(n))
	if !terminal {
		p.end = make(chan struct{})
		go p.lines(w, what)
	}
	return p
}

// Terminal reports whether a writer is one.
func Terminal(w io.Writer) bool {
	f, ok := plain.Raw(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *Bar) lines(w io.Writer, what string) {
	start := time.Now()
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	for {
		select {
		case <-p.end:
			return
		case <-ticker.C:
			done := int(p.done.Load())
			fmt.Fprintf(
				w, "lockstep: %s\n",
				Describe(done, int(p.of.Load()), what, float64(done)/time.Since(start).Seconds()))
		}
	}
}

// Describe says how many of n are done, and how long the rest takes at a rate.
func Describe(done, n int, what string, perSecond float64) string {
	text := fmt.Sprintf("%d of %d %s", done, n, what)
	if perSecond > 0 && done < n {
		left := time.Duration(float64(n-done) / perSecond * float64(time.Second))
		text += fmt.Sprintf(", %.3g/s, %v left", perSecond, left.Round(time.Second))
	}
	return text
}

// Of says that there are n in all, of something that is known only when it comes.
func (p *Bar) Of(n int) {
	p.of.Store(int64(n))
	p.bar.ChangeMax(n)
}

// Add counts n more. It may be called from any goroutine.
func (p *Bar) Add(n int) {
	p.done.Add(int64(n))
	p.bar.Add(n)
}

// Set says that n are done.
func (p *Bar) Set(n int) {
	p.done.Store(int64(n))
	p.bar.Set(n)
}

// Clear ends the progress and takes the bar away.
func (p *Bar) Clear() {
	if p.end != nil {
		close(p.end)
	}
	p.bar.Clear()
}
