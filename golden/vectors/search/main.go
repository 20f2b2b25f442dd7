// Search makes golden/vectors' data, vectors.npz and alternatives.json in the
// current folder: of all operations, or anew of those that are named, the others
// staying as they are. All of them take minutes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"lockstep/golden/vectors"
	"lockstep/golden/vectors/internal/statement"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "search:", err)
		os.Exit(1)
	}
}

const archive, list = "vectors.npz", "alternatives.json"

func run(names []string) error {
	all, old := map[string][]vectors.Vector{}, []statement.Alternatives{}
	if len(names) > 0 {
		var err error
		if all, old, err = read(); err != nil {
			return err
		}
	}
	var tables []statement.Alternatives
	for _, o := range statement.Operations() {
		i := slices.IndexFunc(old, func(a statement.Alternatives) bool {
			return a.Operation == o.Name
		})
		if i >= 0 && !slices.Contains(names, o.Name) {
			tables = append(tables, old[i])
			continue
		}
		vs, tell, alike := o.Search(1)
		all[o.Name] = vs
		tables = append(
			tables,
			statement.Alternatives{
				Operation: o.Name,
				Line:      o.Line,
				Vectors:   len(vs),
				Tell:      tell,
				Tried:     o.Tries,
				Alike:     alike,
			},
		)
		fmt.Printf(
			"%s: %d vectors tell %d alternatives apart; alike on all arguments tried: %q\n", o.Name,
			len(vs), len(tell), alike,
		)
	}
	data, err := vectors.Encode(all)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(tables, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(archive, data, 0o666); err != nil {
		return err
	}
	return os.WriteFile(list, append(text, '\n'), 0o666)
}

// read returns what there is.
func read() (map[string][]vectors.Vector, []statement.Alternatives, error) {
	data, err := os.ReadFile(archive)
	if err != nil {
		return nil, nil, err
	}
	all, err := vectors.Decode(data)
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, nil, err
	}
	var tables []statement.Alternatives
	return all, tables, json.Unmarshal(text, &tables)
}
