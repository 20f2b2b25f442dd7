package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// What people take for something else.
const (
	shared   = "SHARE_COPY"       // a copy is what it would be made of
	first    = "FIRST_FOR_EACH"   // any element is the first
	short    = "SHORTEN_RANGE"    // a loop leaves out the last
	cut      = "CUT_NUMBER"       // of 64 bits an integer has its lower 32; a fraction is a float32
	opposite = "INVERT_CONDITION" // a condition that compares nothing is its opposite
)

var confusions = []string{shared, first, short, cut, opposite}

// confuse notes what can be taken for something else in a node.
func (r *rewriter) confuse(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		r.copies(n)
		r.given(n)
	case *ast.CompositeLit:
		r.fields(n)
	case *ast.ReturnStmt:
		for _, x := range n.Results {
			r.cut(x)
			r.condition(x)
		}
	case *ast.IndexExpr:
		r.element(n)
	case *ast.RangeStmt:
		r.ranges(n)
	case *ast.ForStmt:
		r.counts(n)
		r.condition(n.Cond)
	case *ast.IfStmt:
		r.condition(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, s := range n.Body.List {
				for _, x := range s.(*ast.CaseClause).List {
					r.condition(x)
				}
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			r.condition(n.X)
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			r.condition(n.X)
			r.condition(n.Y)
		}
	}
}

// around has a mutant of an expression made by a function of that name, which is told of it.
func (r *rewriter) around(x ast.Expr, operator, function, after string) {
	if head, ok := r.generic(function, x, r.info.TypeOf(x)); ok && r.open(operator, x.Pos()) {
		r.wrap(x, fmt.Sprintf("%s(%d, ", head, r.add(operator, x.Pos())), after)
	}
}

// copies has calls that copy, whose copies can be what they are made of: by Clone, or as what is
// appended to nothing.
func (r *rewriter) copies(n *ast.CallExpr) {
	switch r.named(n) {
	case "slices.Clone", "maps.Clone", "bytes.Clone":
	case "append":
		of := r.info.Types[n.Args[0]]
		lit, empty := ast.Unparen(n.Args[0]).(*ast.CompositeLit)
		conversion, null := ast.Unparen(n.Args[0]).(*ast.CallExpr)
		if !n.Ellipsis.IsValid() || len(n.Args) != 2 || !(empty && len(lit.Elts) == 0 ||
			null && r.info.Types[conversion.Fun].IsType() &&
				r.info.Types[conversion.Args[0]].IsNil()) ||
			!types.Identical(of.Type, r.info.TypeOf(n.Args[1])) {
			return
		}
	default:
		return
	}
	from := n.Args[len(n.Args)-1]
	if r.pure(from) {
		r.around(n, shared, "mutantEither", ", "+r.source(from)+")")
	}
}

// given has what a call is given, but for conversions, what the language has built in, what is
// printed, and what is asked whether it is a number, which it is by 32 bits as well.
func (r *rewriter) given(n *ast.CallExpr) {
	_, builtin := r.callee(n).(*types.Builtin)
	if name := r.named(n); builtin || r.info.Types[n.Fun].IsType() ||
		name == "math.IsNaN" || name == "math.IsInf" {
		return
	}
	for i, x := range n.Args {
		if !r.printed(n, i-1) {
			r.cut(x)
		}
	}
}

func (r *rewriter) fields(n *ast.CompositeLit) {
	if _, ok := r.info.TypeOf(n).Underlying().(*types.Struct); !ok {
		return
	}
	for _, x := range n.Elts {
		if pair, ok := x.(*ast.KeyValueExpr); ok {
			x = pair.Value
		}
		r.cut(x)
	}
}

// cut has a number of 64 bits that is no constant, nor converted, which mostly has fewer, nor NaN
// or infinite by name.
func (r *rewriter) cut(x ast.Expr) {
	if call, ok := ast.Unparen(x).(*ast.CallExpr); ok {
		name := r.named(call)
		if r.info.Types[call.Fun].IsType() || name == "math.NaN" || name == "math.Inf" {
			return
		}
	}
	v := r.info.Types[x]
	if t, ok := types.Unalias(v.Type).(*types.Basic); ok && v.Value == nil &&
		(t.Kind() == types.Int64 || t.Kind() == types.Uint64 || t.Kind() == types.Float64) {
		r.around(x, cut, "mutantCut", ")")
	}
}

// element has one that a variable chooses.
func (r *rewriter) element(n *ast.IndexExpr) {
	if r.info.Types[n.Index].Value != nil || !r.is(n.Index, types.IsInteger) {
		return
	}
	of := r.info.TypeOf(n.X).Underlying()
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem().Underlying()
	}
	switch of.(type) {
	case *types.Slice, *types.Array, *types.Basic:
		r.around(n.Index, first, "mutantFirst", ")")
	}
}

// ranges has loops over elements and numbers. An array is copied where a loop takes its elements,
// and is left.
func (r *rewriter) ranges(n *ast.RangeStmt) {
	switch of := r.info.TypeOf(n.X).Underlying().(type) {
	case *types.Slice:
		r.around(n.X, short, "mutantShort", ")")
	case *types.Array:
		if n.Value == nil && r.open(short, n.X.Pos()) {
			r.wrap(n.X, fmt.Sprintf("mutantShort(%d, (", r.add(short, n.X.Pos())), ")[:])")
		}
	case *types.Basic:
		if of.Info()&types.IsInteger != 0 {
			r.around(n.X, short, "mutantFewer", ")")
		}
	}
}

// counts has loops that count up to a number.
func (r *rewriter) counts(n *ast.ForStmt) {
	if c, ok := n.Cond.(*ast.BinaryExpr); ok && (c.Op == token.LSS || c.Op == token.LEQ) &&
		r.is(c.Y, types.IsInteger) {
		r.around(c.Y, short, "mutantFewer", ")")
	}
}

// condition has one that no operator of gremlins changes; what is in it is asked for itself.
func (r *rewriter) condition(x ast.Expr) {
	switch n := x.(type) {
	case nil, *ast.BinaryExpr, *ast.UnaryExpr:
		return
	case *ast.ParenExpr:
		r.condition(n.X)
		return
	}
	t, ok := types.Unalias(r.info.TypeOf(x)).(*types.Basic)
	if ok && (t.Kind() == types.Bool || t.Kind() == types.UntypedBool) &&
		r.open(opposite, x.Pos()) {
		r.wrap(x, fmt.Sprintf("(mutantOn(%d) != ", r.add(opposite, x.Pos())), ")")
	}
}
