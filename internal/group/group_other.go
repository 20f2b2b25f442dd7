//go:build !unix

package group

import "os"

// AskForStack reports that there is no way to ask.
func AskForStack(*os.Process) bool { return false }

// Kill ends the process; what it has started goes on.
func Kill(p *os.Process) { p.Kill() }
