package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"troupe/control"
	"troupe/messages"
)

// describeYAMLError replaces the decoder's error about a value of the wrong type by one that names
// the expected type, with the line of the file and a caret below the value.
func describeYAMLError(err error) error {
	var wrong *yaml.TypeError
	var large *yaml.OverflowError
	var node *yaml.UnexpectedNodeTypeError
	switch {
	case errors.As(err, &wrong):
		return errorAt(wrong.Token, fmt.Sprintf("%s must be %s, not %s",
			keyOf(wrong.Token), typeName(wrong.DstType), typeName(wrong.SrcType)))
	case errors.As(err, &large):
		return errorAt(large.Token, fmt.Sprintf("%s is %s; it must be %s from 0 to %d",
			keyOf(large.Token), large.SrcNum, typeName(large.DstType), math.MaxUint32))
	case errors.As(err, &node):
		return errorAt(node.Token,
			fmt.Sprintf("%s is expected here, not %s", nodeName(node.Expected), nodeName(node.Actual)))
	}
	return err
}

// errorAt returns an error that shows a token of the file.
func errorAt(where *token.Token, message string) error {
	return errors.New(yaml.FormatErrorWithToken(message, where, false, true))
}

// keyOf returns the key of the value that has a token: the nearest key before it.
func keyOf(value *token.Token) string {
	for t := value; t != nil; t = t.Prev {
		if t.Type == token.MappingValueType && t.Prev != nil && (t != value || t.Prev.Prev == nil) {
			return t.Prev.Value
		}
	}
	return "the value"
}

// typeName returns what operators call the values of a Go type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a fraction"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a section"
	}
	return "of another kind"
}

// nodeName returns what operators call the nodes of a YAML type.
func nodeName(t ast.NodeType) string {
	switch t {
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "a section"
	case ast.NullType:
		return "nothing"
	case ast.IntegerType, ast.FloatType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	}
	return "text"
}

// checkAdapters finds adapters that cannot be registered at start: two with the same name, or,
// unless the node joins a cluster that may have the model, one whose model is not in the file.
func (f file) checkAdapters(path string, joins bool) error {
	models, named := map[string]bool{}, map[string]bool{}
	for _, d := range f.Deployments {
		models[d.Name] = true
	}
	for i, a := range f.Adapters {
		switch name := a.Model + ":" + a.Name; {
		case !joins && !models[a.Model]:
			return f.errorAtField(path, fmt.Sprintf("$.adapters[%d].model", i), fmt.Sprintf(
				"model %q is not under deployments; add it there, or register the adapter with adapters.register",
				a.Model))
		case checkAdapterName(a) != nil:
			return f.errorAtField(path, fmt.Sprintf("$.adapters[%d].name", i), checkAdapterName(a).Error())
		case named[name]:
			return f.errorAtField(path, fmt.Sprintf("$.adapters[%d].name", i), fmt.Sprintf(
				"two adapters are %s; give each its own name", name))
		default:
			named[name] = true
		}
	}
	return nil
}

func checkAdapterName(a Adapter) error {
	_, err := control.NormalizeAdapter(&messages.AdapterSpec{Name: a.Name, Model: a.Model, Path: a.Path})
	return err
}

// checkFractions rejects fractions where whole numbers are expected: the decoder would truncate
// them.
func (f file) checkFractions(path string) error {
	fields := reflect.TypeFor[Deployment]()
	for i := range f.Deployments {
		for j := range fields.NumField() {
			name := fields.Field(j).Tag.Get("yaml")
			field := fmt.Sprintf("$.deployments[%d].%s", i, name)
			if node, ok := f.fieldNode(field).(*ast.FloatNode); ok &&
				fields.Field(j).Type == reflect.TypeFor[*uint32]() {
				return f.errorAtField(path, field,
					fmt.Sprintf("%s must be a whole number, not %s", name, node.GetToken().Value))
			}
		}
	}
	return nil
}

// errorAtField returns an error that shows the value of a field, by its YAML path.
func (f file) errorAtField(path, field, message string) error {
	var where *token.Token
	if node := f.fieldNode(field); node != nil {
		where = node.GetToken()
	}
	return fmt.Errorf("%s: %w", path, errorAt(where, message))
}

// fieldNode returns the value of a field by its YAML path, or nil if the file does not have it.
func (f file) fieldNode(field string) ast.Node {
	p, err := yaml.PathString(field)
	if err != nil {
		return nil
	}
	node, err := p.ReadNode(bytes.NewReader(f.source))
	if err != nil {
		return nil
	}
	return node
}
