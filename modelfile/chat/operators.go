package chat

import (
	"math"
	"strings"

	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

func (r *rendering) binary(s *scope, n *nodes.BinaryExpression) any {
	left := r.eval(s, n.Left)
	op := n.Operator.Token.Type
	switch {
	case op == tokens.And && !truth(left), op == tokens.Or && truth(left):
		return left
	}
	right := r.eval(s, n.Right)
	switch op {
	case tokens.And, tokens.Or:
		return right
	case tokens.Addition:
		return r.plus(left, right)
	case tokens.Tilde:
		return r.concat(r.str(left), r.str(right))
	case tokens.Multiply:
		return r.times(left, right)
	case tokens.Equals:
		return r.equal(left, right, 0)
	case tokens.Ne:
		return !r.equal(left, right, 0)
	case tokens.LowerThan:
		return r.compare(left, right) < 0
	case tokens.LowerThanOrEqual:
		return r.compare(left, right) <= 0
	case tokens.GreaterThan:
		return r.compare(left, right) > 0
	case tokens.GreaterThanOrEqual:
		return r.compare(left, right) >= 0
	case tokens.In:
		return r.contains(right, left)
	}
	return arithmetic(op, left, right)
}

func (r *rendering) concat(a, b string) string {
	r.grow(len(a) + len(b))
	return a + b
}

func (r *rendering) plus(left, right any) any {
	a, isList := left.(*list)
	b, both := right.(*list)
	if isList && both {
		r.list(len(a.items) + len(b.items))
		return &list{append(append(make([]any, 0, len(a.items)+len(b.items)), a.items...), b.items...)}
	}
	_, one := left.(string)
	if _, other := right.(string); (one || other) && !isList && !both {
		return r.concat(r.str(left), r.str(right))
	}
	return arithmetic(tokens.Addition, left, right)
}

func (r *rendering) times(left, right any) any {
	n, whole := right.(int)
	if !whole { // n * value equals value * n
		if n, whole = left.(int); whole {
			left, right = right, left
		}
	}
	if whole {
		switch v := left.(type) {
		case string:
			r.repeat(n, len(v))
			return strings.Repeat(v, max(n, 0))
		case *list:
			n = max(n, 0)
			r.repeat(n, len(v.items)*itemBytes)
			r.work(n * len(v.items))
			all := make([]any, 0, n*len(v.items))
			for range n {
				r.work(1)
				all = append(all, v.items...)
			}
			return &list{all}
		}
	}
	return arithmetic(tokens.Multiply, left, right)
}

// arithmetic computes with numbers. None counts as 0.
func arithmetic(op tokens.Type, left, right any) any {
	left, right = orZero(left), orZero(right)
	i, whole := left.(int)
	j, alsoWhole := right.(int)
	if whole && alsoWhole {
		if v, done := integers(op, i, j); done {
			return v
		}
	}
	a, ok := number(left)
	b, alsoOK := number(right)
	if !ok || !alsoOK {
		fail("operator not defined for a %s and a %s", typeOf(left), typeOf(right))
	}
	switch op {
	case tokens.Addition:
		return a + b
	case tokens.Subtraction:
		return a - b
	case tokens.Multiply:
		return a * b
	case tokens.Power:
		return math.Pow(a, b)
	}
	if b == 0 {
		fail("divide by zero")
	}
	switch op {
	case tokens.Division:
		return a / b
	case tokens.FloorDivision:
		return math.Floor(a / b)
	case tokens.Modulo:
		if m := math.Mod(a, b); m == 0 || m < 0 == (b < 0) {
			return m
		} else {
			return m + b
		}
	}
	fail("unknown operator")
	return nil
}

func orZero(v any) any {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 1
		}
		return 0
	}
	return v
}

// integers computes with integers like Python, except that overflow wraps around.
func integers(op tokens.Type, i, j int) (v any, done bool) {
	switch op {
	case tokens.Addition:
		return i + j, true
	case tokens.Subtraction:
		return i - j, true
	case tokens.Multiply:
		return i * j, true
	case tokens.Power:
		p := math.Pow(float64(i), float64(j))
		return int(p), j >= 0 && math.Abs(p) < 1<<53
	case tokens.FloorDivision, tokens.Modulo:
		if j == 0 {
			fail("divide by zero")
		}
		quotient, rest := i/j, i%j
		if rest != 0 && rest < 0 != (j < 0) {
			quotient, rest = quotient-1, rest+j
		}
		if op == tokens.Modulo {
			return rest, true
		}
		return quotient, true
	}
	return nil, false
}
