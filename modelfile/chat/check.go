package chat

import (
	"fmt"

	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/nodes"
)

// checker finds unsupported filters, tests and methods anywhere in a template. Errors contain only
// names known to Jinja, since a file that is not a template must not be shown.
type checker struct{ stack int }

func (c *checker) all(some ...nodes.Node) error {
	if c.stack++; c.stack > maxStack {
		return fmt.Errorf("expressions are nested more than %d levels deep", maxStack)
	}
	defer func() { c.stack-- }()
	for _, n := range some {
		if n == nil {
			continue
		}
		if err := c.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) node(n nodes.Node) error {
	switch n := n.(type) {
	case *nodes.Output:
		return c.all(n.Expression, n.Condition, n.Alternative)
	case *nodes.ControlStructureBlock:
		return c.tag(n.ControlStructure)
	case *nodes.List:
		return c.expressions(n.Val, nil)
	case *nodes.Tuple:
		return c.expressions(n.Val, nil)
	case *nodes.Dict:
		for _, p := range n.Pairs {
			if err := c.all(p.Key, p.Value); err != nil {
				return err
			}
		}
	case *nodes.GetAttribute:
		return c.all(n.Node)
	case *nodes.GetItem:
		return c.all(n.Node, n.Arg)
	case *nodes.GetSlice:
		return c.all(n.Node, n.Start, n.End, n.Step)
	case *nodes.Negation:
		return c.all(n.Term)
	case *nodes.UnaryExpression:
		return c.all(n.Term)
	case *nodes.BinaryExpression:
		return c.all(n.Left, n.Right)
	case *nodes.Call:
		return c.call(n)
	case *nodes.FilteredExpression:
		if err := c.all(n.Expression); err != nil {
			return err
		}
		return c.filters(n.Filters)
	case *nodes.TestExpression:
		if _, ok := testFunctions[n.Test.Name]; !ok {
			return fmt.Errorf("line %d: unsupported test", n.Test.Token.Line)
		}
		if err := c.all(n.Expression); err != nil {
			return err
		}
		return c.expressions(n.Test.Args, n.Test.Kwargs)
	}
	return nil
}

func (c *checker) expressions(all []nodes.Expression, named map[string]nodes.Expression) error {
	for _, n := range all {
		if err := c.all(n); err != nil {
			return err
		}
	}
	for _, n := range named {
		if err := c.all(n); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) filters(all []*nodes.FilterCall) error {
	for _, f := range all {
		if _, ok := filterFunctions[f.Name]; !ok {
			name := "filter"
			if refusedFilters[f.Name] {
				name = "filter " + f.Name
			}
			return fmt.Errorf("line %d: unsupported %s", f.Token.Line, name)
		}
		if err := c.expressions(f.Args, f.Kwargs); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) call(n *nodes.Call) error {
	if err := c.all(n.Func); err != nil {
		return err
	}
	return c.expressions(n.Args, n.Kwargs)
}

func (c *checker) body(all ...*nodes.Wrapper) error {
	for _, w := range all {
		if w != nil {
			if err := c.all(w.Nodes...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) tag(tag nodes.ControlStructure) error {
	switch t := tag.(type) {
	case *controls.IfControlStructure:
		if err := c.expressions(t.Conditions, nil); err != nil {
			return err
		}
		return c.body(t.Wrappers...)
	case *controls.ForControlStructure:
		if err := c.all(t.ObjectEvaluator, t.IfCondition); err != nil {
			return err
		}
		return c.body(t.BodyWrapper, t.EmptyWrapper)
	case *controls.MacroControlStructure:
		for _, p := range t.Kwargs {
			if err := c.all(p.Value); err != nil {
				return err
			}
		}
		return c.body(t.Wrapper)
	case *controls.CallControlStructure:
		if err := c.call(t.Call); err != nil {
			return err
		}
		return c.body(t.Body)
	case *controls.DoControlStructure:
		return c.all(t.Expression)
	case *setTag:
		if err := c.all(t.target, t.value, t.condition, t.alternative); err != nil {
			return err
		}
		return c.body(t.body)
	case *withTag:
		if err := c.expressions(t.values, nil); err != nil {
			return err
		}
		return c.body(t.body)
	case *filterTag:
		if err := c.filters(t.filters); err != nil {
			return err
		}
		return c.body(t.body)
	case *textTag:
		return c.body(t.body)
	}
	return nil
}
