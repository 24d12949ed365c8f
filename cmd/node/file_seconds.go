package main

import (
	"fmt"
	"math"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// seconds is a whole number of seconds, which may also be written as a time such as 5m.
type seconds uint32

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *seconds) UnmarshalYAML(node ast.Node) error {
	if node.Type() == ast.IntegerType {
		return yaml.NodeToValue(node, (*uint32)(s))
	}
	at := node.GetToken()
	d, err := time.ParseDuration(at.Value)
	if err != nil || d < 0 || d%time.Second != 0 || d/time.Second > math.MaxUint32 {
		value := at.Value
		if t := node.Type(); t == ast.SequenceType || t == ast.MappingType {
			value = nodeName(t)
		}
		return errorAt(at, fmt.Sprintf("%s must be whole seconds, such as 90 or 1m30s, not %s", keyOf(at), value))
	}
	*s = seconds(d / time.Second)
	return nil
}
