// Search makes golden/vectors' data: vectors.npz and alternatives.json in the
// current folder.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"lockstep/golden/vectors"
	"lockstep/golden/vectors/statement"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "search:", err)
		os.Exit(1)
	}
}

func run() error {
	all := map[string][]vectors.Vector{}
	var table []statement.Table
	for _, o := range statement.Operations() {
		start := time.Now()
		vs, tell, alike := o.Search(1)
		all[o.Name] = vs
		table = append(table, statement.Table{Operation: o.Name, Line: o.Line, Vectors: len(vs), Tell: tell, Tried: o.Tries, Alike: alike})
		fmt.Printf("%-18s %3d vectors tell %3d alternatives apart, %d do not differ  %.1fs %q\n", o.Name, len(vs), len(tell), len(alike), time.Since(start).Seconds(), alike)
	}
	data, err := vectors.Encode(all)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(table, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile("vectors.npz", data, 0o666); err != nil {
		return err
	}
	return os.WriteFile("alternatives.json", append(text, '\n'), 0o666)
}
