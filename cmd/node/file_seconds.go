package main

import (
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"troupe/control"
)

// seconds is a whole number of seconds, which may also be written as a time such as 5m.
type seconds uint32

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *seconds) UnmarshalYAML(node ast.Node) error {
	if node.Type() == ast.IntegerType {
		return yaml.NodeToValue(node, (*uint32)(s))
	}
	at := node.GetToken()
	n, ok := control.WholeSeconds(at.Value)
	if !ok {
		value := at.Value
		if t := node.Type(); t == ast.SequenceType || t == ast.MappingType {
			value = nodeName(t)
		}
		return errorAt(at, fmt.Sprintf("%s must be whole seconds, such as 90 or 1m30s, not %s", keyOf(at), value))
	}
	*s = seconds(n)
	return nil
}
