package statement_test

import (
	"fmt"

	"lockstep/golden/vectors/internal/statement"
)

// The operations for which vectors were searched.
func ExampleOperations() {
	fmt.Println(statement.Operations()[0].Name)
	// Output:
	// product
}
