package report_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"lockstep"
	"lockstep/cmd/internal/report"
)

// The costs of a run are written as CSV.
func ExampleWriteCSV() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "costs.csv")
	run := report.Run{Controller: "pid", Engine: "batched", Routes: []report.RouteResult{{
		Name:   "00000",
		Result: lockstep.Result{Costs: lockstep.Costs{Lataccel: 1, Jerk: 20, Total: 70}},
	}}}
	costs := report.CostTable{Runs: []report.RoleRun{{Role: report.Test, Run: run}}}
	if err := report.WriteCSV(path, costs); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(path)
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// role,controller,route,lataccel_cost,jerk_cost,total_cost,error
	// test,pid,00000,1,20,70,
	// <nil>
}
