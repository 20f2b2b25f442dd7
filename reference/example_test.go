package reference_test

import (
	"fmt"

	"lockstep/reference"
)

// The network predicts one of 1,024 tokens, each of which stands for a lataccel.
func ExampleLataccelTokenizer() {
	tokenizer := reference.NewLataccelTokenizer()
	token := tokenizer.Encode(0.3)
	fmt.Println(token, tokenizer.Decode(int(token)))
	// Output:
	// 543 0.3079178885630496
}

// Costs are printed as Python prints them.
func ExampleFormatCost() {
	fmt.Println(reference.FormatCost(84.5), reference.FormatCost(12345))
	// Output:
	// 84.5 1.234e+04
}
