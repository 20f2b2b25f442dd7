// Command lockstep rolls out steering controllers in tinyphysics, with the bits
// of the Python program.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"lockstep/engines"
	"lockstep/internal/want"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	exitOK          = 0
	exitParity      = 1   // two computations differ
	exitUsage       = 2   // bad usage or bad input
	exitInterrupted = 130 // as shells report Ctrl-C
)

type commands struct {
	Demo     demoCommand     `cmd:"" help:"Roll a few routes out on every engine, compare the bits, draw the drives."`
	Rollout  rolloutCommand  `cmd:"" help:"Roll routes out and print their costs."`
	Envs     envsCommand     `cmd:"" help:"List Gymnasium's classic control environments."`
	Eval     evalCommand     `cmd:"" help:"Compare two controllers and write a report."`
	Compare  compareCommand  `cmd:"" help:"Compare engines with each other, with the recordings of the Python program, or with traces, bit by bit."`
	Replay   replayCommand   `cmd:"" help:"Repeat cases that were kept, on every engine."`
	Mutants  mutantsCommand  `cmd:"" help:"Plant faults in the engines, one at a time, and see whether each is found and its stage named."`
	Gate     gateCommand     `cmd:"" help:"Run what a change must pass before it is merged."`
	Tune     tuneCommand     `cmd:"" help:"Search for the gains of a controller."`
	Plan     planCommand     `cmd:"" help:"Search for the actions of each route."`
	Export   exportCommand   `cmd:"" help:"Write a policy as a controller of the challenge, in Python."`
	Watch    watchCommand    `cmd:"" help:"Say how far a run is, from its folder."`
	Shard    shardCommand    `cmd:"" help:"Compute a run in parts, on as many machines as there are."`
	Generate generateCommand `cmd:"" help:"Make routes."`
	Bench    benchCommand    `cmd:"" help:"Measure speed, as ratios within one run."`
	Fetch    fetchCommand    `cmd:"" help:"Download the challenge's network or routes."`
	Doctor   doctorCommand   `cmd:"" help:"Say what is here, what is missing, and what mends it."`
}

// environment is what a command may touch of the world.
type environment struct {
	ctx    context.Context
	args   []string // the command line, without the program's name
	stdout *stickyWriter
	stderr io.Writer
	ends   []func() // of what a command uses until it ends
}

// atEnd has something called when the command ends, before what was to be called earlier.
func (e *environment) atEnd(end func()) { e.ends = append(e.ends, end) }

// command is the command line.
func (e *environment) command() []string { return append([]string{"lockstep"}, e.args...) }

// stickyWriter keeps the first error of its writer, and writes nothing after it: a
// command need not look at each line that it prints. One that runs long ends where
// nobody reads any more.
type stickyWriter struct {
	w   io.Writer
	err error
	end func() // called with the first error
}

func (w *stickyWriter) Write(p []byte) (n int, err error) {
	if w.err == nil {
		if n, w.err = w.w.Write(p); w.err != nil && w.end != nil {
			w.end()
		}
	}
	return n, w.err
}

// json prints a value as one line. One that has no such form is a mistake, and is an
// error of the output.
func (e *environment) json(v any) {
	if err := json.NewEncoder(e.stdout).Encode(v); err != nil && e.stdout.err == nil {
		e.stdout.err = err
	}
}

// interrupted says that the user ended a command, and what that means.
func (e *environment) interrupted(means string) error {
	if e.stdout.err == nil { // which is why, else
		fmt.Fprintf(e.stderr, "lockstep: interrupted; %s\n", means)
	}
	return exitStatus(exitInterrupted)
}

// ended is the error that a command's work ended with. That of an interruption says so,
// and what it means.
func (e *environment) ended(err error, means string) error {
	if e.ctx.Err() != nil {
		return e.interrupted(means)
	}
	return err
}

// failed is what a command ends with of whose rollouts so many failed.
func (e *environment) failed(n, all int) error {
	if n == 0 {
		return nil
	}
	fmt.Fprintf(e.stderr, "lockstep: %d of %d rollouts failed\n", n, all)
	return exitStatus(exitUsage)
}

// exitStatus is an error whose message is already printed.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)                            // a second Ctrl-C ends what the first does not reach
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // an error of the write, and not the end
	if stdoutClosed() {
		os.Stdout.Close() // that of /dev/null, which Go opens in its place
	}
	os.Exit(run(ctx, os.Args[1:], &stickyWriter{w: os.Stdout, end: stop}, os.Stderr))
}

// newParser is the command line's. It notes that help was asked for, and printed.
func newParser(env *environment, helped *bool) (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("lockstep"),
		kong.Description("The tinyphysics simulator, equal to the Python program bit for bit."),
		kong.Vars{"engines": strings.Join(engines.Names(), ","), "wants": strings.Join(want.Names(), ", ")},
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(func(int) { *helped = true }), // after --help
		kong.Bind(env),
		kong.UsageOnError(),
	)
}

func run(ctx context.Context, args []string, stdout *stickyWriter, stderr io.Writer) int {
	env := &environment{ctx: ctx, args: args, stdout: stdout, stderr: stderr}
	defer func() {
		for _, end := range slices.Backward(env.ends) {
			end()
		}
	}()
	helped := false
	parser, err := newParser(env, &helped)
	if err != nil {
		panic(err) // the commands above are not what kong wants
	}
	if err := checkArguments(args); err != nil {
		fmt.Fprintf(stderr, "lockstep: %v\n", err)
		return exitUsage
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	command, err := parser.Parse(args)
	if helped {
		err = nil
	} else if err == nil {
		if err = cmp.Or(checkClassic(command), checkFiles(command)); err == nil {
			err = command.Run()
		}
	}
	if env.stdout.err != nil {
		err = fmt.Errorf("standard output: %w", env.stdout.err)
	}
	var status exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	default:
		fmt.Fprintf(stderr, "lockstep: %v\n", err)
		return exitUsage
	}
}

// checkArguments refuses empty ones, which come of variables that are not set, and
// would else mean what the flag means where it is not given.
func checkArguments(args []string) error {
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		switch {
		case arg == "" && i > 0:
			return fmt.Errorf("the argument after %s is empty", args[i-1])
		case given && value == "" && strings.HasPrefix(name, "--"):
			return fmt.Errorf("%s is empty", name)
		}
	}
	return nil
}
