//go:build !unix

package group

import (
	"os"
	"os/exec"
)

// Set does nothing here.
func Set(*exec.Cmd) {}

// AskForStack reports that there is no way to ask.
func AskForStack(*os.Process) bool { return false }

// Kill ends the process.
func Kill(p *os.Process) { p.Kill() }
