package testlog_test

import (
	"fmt"
	"log"
	"strings"

	"lockstep/cmd/internal/gate/internal/testlog"
)

// A log of go test -json becomes the cases of a check.
func ExampleRead() {
	text := `{"Action":"run","Package":"lockstep/cmd/internal/runs","Test":"TestA"}
{"Action":"pass","Package":"lockstep/cmd/internal/runs","Test":"TestA","Elapsed":0.5}
`
	l, err := testlog.Read(strings.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range l.Cases() {
		fmt.Println(c.Class, c.Name, c.Outcome)
	}
	// Output:
	// lockstep/cmd/internal/runs TestA passed
}
