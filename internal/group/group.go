package group

import (
	"context"
	"os/exec"
)

// Command is a program that is ended with the context, together with what it has started.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	Set(command)
	command.Cancel = func() error { Kill(command.Process); return nil }
	return command
}
