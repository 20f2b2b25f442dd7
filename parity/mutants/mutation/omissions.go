package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path"
	"strings"
)

// What people forget or mix up, for which gremlins has no operator.
const (
	removal  = "REMOVE_STATEMENT" // a call or an assignment is left out
	field    = "REMOVE_FIELD"     // a literal's field is left at zero
	exchange = "SWAP_ARGUMENTS"   // two neighbours of the same type change places
	altered  = "CHANGE_CONSTANT"  // a number is 1 more; that of a float64 an eighth more
)

var omissions = []string{removal, field, exchange, altered}

// omit notes what can be forgotten, or mixed up, in a node; false if nothing in it can be.
func (r *rewriter) omit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt:
		r.statements(n.List)
	case *ast.CaseClause:
		r.statements(n.Body)
	case *ast.CommClause:
		r.statements(n.Body)
	case *ast.LabeledStmt:
		r.statements([]ast.Stmt{n.Stmt})
	case *ast.CompositeLit:
		r.literal(n)
	case *ast.CallExpr:
		r.arguments(n)
	case *ast.UnaryExpr:
		if r.info.Types[n].Value != nil {
			r.varied(n)
			return false
		}
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr:
		r.varied(n.(ast.Expr))
	}
	return true
}

// open is whether a mutant may be made at a place, which may have been left.
func (r *rewriter) open(operator string, at token.Pos) bool {
	line := r.fset.Position(at).Line
	return !r.without[place{r.file, line, ""}] && !r.without[place{r.file, line, operator}]
}

// statements has those that can be left out: calls, and assignments to what is there already. A
// panic cannot, since a function may end by it.
func (r *rewriter) statements(list []ast.Stmt) {
	for _, s := range list {
		at := token.NoPos
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := ast.Unparen(s.X).(*ast.CallExpr); ok && r.tells(call) {
				at = call.Lparen
			}
		case *ast.DeferStmt:
			at = s.Call.Lparen
		case *ast.AssignStmt:
			if s.Tok == token.ASSIGN && !r.blank(s.Lhs) {
				at = s.TokPos
			}
		}
		if at != token.NoPos && r.open(removal, at) {
			r.wrap(s, fmt.Sprintf("if !mutantOn(%d) { ", r.add(removal, at)), " }")
		}
	}
}

func (r *rewriter) blank(all []ast.Expr) bool {
	for _, x := range all {
		if name, ok := x.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

// tells is whether a call has an effect that a program can see.
func (r *rewriter) tells(call *ast.CallExpr) bool {
	switch f := r.callee(call).(type) {
	case *types.Builtin:
		return f.Name() != "panic"
	case *types.Func:
		if f.Pkg() == nil {
			return true
		}
		path := f.Pkg().Path()
		return path != "testing" && path != "log" && path+f.Name() != "runtimeKeepAlive"
	}
	return true
}

// callee is what a call names; nil where it names nothing.
func (r *rewriter) callee(call *ast.CallExpr) types.Object {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return r.info.Uses[f]
	case *ast.SelectorExpr:
		return r.info.Uses[f.Sel]
	case *ast.IndexExpr:
		return r.callee(&ast.CallExpr{Fun: f.X})
	}
	return nil
}

// literal has the fields of a struct that are not 0 in it. Numbers in tables are left.
func (r *rewriter) literal(n *ast.CompositeLit) {
	of, ok := r.info.TypeOf(n).Underlying().(*types.Struct)
	if !ok {
		r.fix(n)
		return
	}
	for _, e := range n.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok || r.fixed[n] || r.zero(pair.Value) || !r.open(field, pair.Colon) {
			continue
		}
		var want types.Type
		for f := range of.Fields() {
			if name, ok := pair.Key.(*ast.Ident); ok && f.Name() == name.Name {
				want = f.Type()
			}
		}
		if head, ok := r.generic("mutantZero", pair.Value, want); ok {
			r.wrap(pair.Value, fmt.Sprintf("%s(%d, ", head, r.add(field, pair.Colon)), ")")
		}
	}
}

// fix leaves all that is in a node as it is, but for functions.
func (r *rewriter) fix(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		_, function := n.(*ast.FuncLit)
		if n != nil && !function {
			r.fixed[n] = true
		}
		return !function
	})
}

func (r *rewriter) zero(x ast.Expr) bool {
	v := r.info.Types[x]
	if v.IsNil() {
		return true
	}
	if c, ok := ast.Unparen(x).(*ast.CompositeLit); ok && len(c.Elts) == 0 {
		_, ok := r.info.TypeOf(c).Underlying().(*types.Struct)
		return ok
	}
	if v.Value == nil {
		return false
	}
	switch v.Value.Kind() {
	case constant.Bool:
		return !constant.BoolVal(v.Value)
	case constant.String:
		return constant.StringVal(v.Value) == ""
	default:
		return constant.Sign(v.Value) == 0
	}
}

// generic is how a generic function is called with a value that is to have a type: the type is
// written only where it is not the value's, since a file need not import its package.
func (r *rewriter) generic(name string, x ast.Expr, want types.Type) (string, bool) {
	v := r.info.Types[x]
	if want == nil || v.Type == nil {
		return "", false
	}
	if v.Value == nil && types.Identical(v.Type, want) {
		return name, true
	}
	can := true
	text := types.TypeString(want, func(p *types.Package) string {
		if p == r.pkg {
			return ""
		}
		local, ok := r.imports[p.Path()]
		can = can && ok
		return local
	})
	return name + "[" + text + "]", can && !strings.Contains(text, "\n")
}

// arguments has neighbours of one type that can change places. Of functions whose arguments
// commute, and of what is printed, they would show nothing, or words only.
func (r *rewriter) arguments(n *ast.CallExpr) {
	name := r.named(n)
	switch name {
	case "make":
		r.room(n)
		return
	case "min", "max", "math.Min", "math.Max":
		return
	case "strconv.ParseFloat":
		r.fix(n.Args[1]) // all but 32 are 64
	case "math.Inf":
		r.fix(n.Args[0]) // any number above 0 has the sign of 1
	}
	if r.info.Types[n.Fun].IsType() {
		return
	}
	last := len(n.Args) - 1
	if n.Ellipsis.IsValid() {
		last--
	}
	for i := range max(last, 0) {
		if (i > 0 || !commuting[path.Base(name)]) && !r.printed(n, i) {
			r.exchange(n.Args[i], n.Args[i+1])
		}
	}
}

// named is what a call names, with its package.
func (r *rewriter) named(n *ast.CallExpr) string {
	f := r.callee(n)
	switch {
	case f == nil:
		return ""
	case f.Pkg() == nil:
		return f.Name()
	}
	return f.Pkg().Path() + "." + f.Name()
}

// room leaves what make is told of a capacity.
func (r *rewriter) room(n *ast.CallExpr) {
	first := 1
	if _, slice := r.info.TypeOf(n).Underlying().(*types.Slice); slice {
		first = 2
	}
	for _, x := range n.Args[min(first, len(n.Args)):] {
		r.fix(x)
	}
}

// exchange has two arguments that can be taken for one another.
func (r *rewriter) exchange(a, b ast.Expr) {
	if !r.pure(a) || !r.pure(b) || r.zero(a) && r.zero(b) {
		return
	}
	ta, tb := r.info.TypeOf(a), r.info.TypeOf(b)
	one, other := r.source(a), r.source(b)
	if ta == nil || tb == nil || !types.Identical(ta, tb) || one == other ||
		strings.Contains(one+other, "\n") {
		return
	}
	comma, head, ok := r.comma(a, b), "mutantEither", true
	if r.info.Types[a].Value != nil && r.info.Types[b].Value != nil {
		head, ok = r.generic(head, a, types.Default(ta))
	}
	if !ok || comma == token.NoPos || !r.open(exchange, comma) {
		return
	}
	head = fmt.Sprintf("%s(%d, ", head, r.add(exchange, comma))
	r.wrap(a, head, ", "+other+")")
	r.wrap(b, head, ", "+one+")")
}

// commuting are functions whose first two arguments are factors, terms of a sum, or compared.
var commuting = map[string]bool{
	"math.FMA": true, "f32.FMA": true, "f32.fmaCommon": true, "f32.fmaRare": true,
	"classic.fma32": true,
	"bits.Add32":    true, "bits.Add64": true, "bits.Mul32": true, "bits.Mul64": true,
	"bytes.Equal": true, "slices.Equal": true, "maps.Equal": true, "strings.EqualFold": true,
	"reflect.DeepEqual": true,
}

// printed is whether an argument is one of so many of any type.
func (r *rewriter) printed(n *ast.CallExpr, i int) bool {
	s, ok := r.info.TypeOf(n.Fun).(*types.Signature)
	if !ok || !s.Variadic() || i+1 < s.Params().Len()-1 {
		return false
	}
	all, ok := s.Params().At(s.Params().Len() - 1).Type().(*types.Slice)
	return ok && types.IsInterface(all.Elem())
}

// source is a node's text.
func (r *rewriter) source(n ast.Node) string {
	return string(r.text[r.fset.Position(n.Pos()).Offset:r.fset.Position(n.End()).Offset])
}

// comma is where that between two arguments is.
func (r *rewriter) comma(a, b ast.Expr) token.Pos {
	from, to := r.fset.Position(a.End()).Offset, r.fset.Position(b.Pos()).Offset
	i := bytes.IndexByte(r.text[from:to], ',')
	if i < 0 {
		return token.NoPos
	}
	return a.End() + token.Pos(i)
}

// pure is whether a value can be taken once more, since that changes nothing.
func (r *rewriter) pure(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name != "nil"
	case *ast.BasicLit:
		return true
	case *ast.ParenExpr:
		return r.pure(x.X)
	case *ast.SelectorExpr:
		return r.pure(x.X)
	case *ast.StarExpr:
		return r.pure(x.X)
	case *ast.IndexExpr:
		return r.pure(x.X) && r.pure(x.Index)
	case *ast.BinaryExpr:
		return r.pure(x.X) && r.pure(x.Y)
	case *ast.UnaryExpr:
		return (x.Op == token.SUB || x.Op == token.AND || x.Op == token.NOT) && r.pure(x.X)
	case *ast.SliceExpr:
		for _, part := range []ast.Expr{x.X, x.Low, x.High, x.Max} {
			if part != nil && !r.pure(part) {
				return false
			}
		}
		return true
	}
	return false
}

// varied has a constant that is a number without a name of its type: one that is written, or the
// name of one of this module or of math.
func (r *rewriter) varied(x ast.Expr) {
	name, _ := x.(*ast.Ident)
	if s, ok := x.(*ast.SelectorExpr); ok {
		name = s.Sel
	}
	if name != nil {
		c, ok := r.info.Uses[name].(*types.Const)
		if !ok || c.Pkg() == nil {
			return
		}
		if path := c.Pkg().Path(); path != "math" &&
			strings.Split(path, "/")[0] != strings.Split(r.pkg.Path(), "/")[0] {
			return
		}
	}
	v := r.info.Types[x]
	if r.fixed[x] || v.Value == nil || !r.open(altered, x.Pos()) {
		return
	}
	t, ok := types.Unalias(types.Default(v.Type)).(*types.Basic)
	if !ok || t.Info()&(types.IsInteger|types.IsFloat) == 0 {
		return
	}
	if lit, ok := x.(*ast.BasicLit); ok && lit.Kind != token.INT && lit.Kind != token.FLOAT {
		return
	}
	r.wrap(x, fmt.Sprintf("mutantMore[%s](%d, ", t.Name(), r.add(altered, x.Pos())), ")")
}
