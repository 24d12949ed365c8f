package control

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

var durationName = (&durationpb.Duration{}).ProtoReflect().Descriptor().FullName()

// invalidEnum is in the error of protojson for a name that an enum does not have.
const invalidEnum = "invalid value for enum field "

// invalidDuration is in the error of protojson for a duration in another form than "0.2s".
const invalidDuration = "invalid google.protobuf.Duration value"

// invalidNumber is in the error of protojson for a number of seconds in another form than 20 or "20".
const invalidNumber = "invalid value for uint32 field "

// secondFields are the fields that are a whole number of seconds, by their JSON names.
var secondFields = map[string]string{"idleAfter": "idle_after", "wakeWait": "wake_wait"}

// hasOtherForm reports whether an error of protojson is for a value that longForms may replace.
func hasOtherForm(err error) bool {
	return slices.ContainsFunc([]string{invalidEnum, invalidDuration, invalidNumber},
		func(form string) bool { return strings.Contains(err.Error(), form) })
}

// remedy returns what to send instead of a value, after an error of protojson, or nothing.
func remedy(detail string, into proto.Message) string {
	if _, field, ok := strings.Cut(detail, invalidEnum); ok {
		return acceptedNames(field, into)
	}
	if strings.Contains(detail, invalidDuration) {
		return `; send a time such as "200ms" or "1m30s"`
	}
	if _, field, ok := strings.Cut(detail, invalidNumber); ok {
		field, _, _ = strings.Cut(field, ":")
		if name := secondFields[field]; name != "" {
			return "; send whole seconds as " + name + `, such as 90 or "1m30s"`
		}
	}
	return ""
}

// longForms returns the JSON form of a message in which the short names of enum values, such as "batch",
// are replaced by the long ones, such as "PRIORITY_CLASS_BATCH", durations such as "200ms" by those
// that protojson reads, such as "0.2s", and those of secondFields by their seconds. It returns data itself if
// there are none, or if data is not a JSON object.
func longForms(data []byte, into proto.Message) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var object map[string]any
	if d.Decode(&object) != nil || d.More() || !replaceForms(object, into.ProtoReflect().Descriptor()) {
		return data
	}
	long, err := json.Marshal(object)
	if err != nil {
		return data
	}
	return long
}

// replaceForms replaces the short forms in the fields of an object, and reports whether there were any.
func replaceForms(object map[string]any, of protoreflect.MessageDescriptor) (replaced bool) {
	for name, value := range object {
		f := of.Fields().ByJSONName(name)
		if f == nil {
			f = of.Fields().ByTextName(name)
		}
		if f == nil {
			continue
		}
		if f.IsMap() {
			f = f.MapValue()
			values, _ := value.(map[string]any)
			for key := range values {
				replaced = replaceIn(f, values[key], func(v any) { values[key] = v }) || replaced
			}
			continue
		}
		if values, ok := value.([]any); ok {
			for i := range values {
				replaced = replaceIn(f, values[i], func(v any) { values[i] = v }) || replaced
			}
			continue
		}
		replaced = replaceIn(f, value, func(v any) { object[name] = v }) || replaced
	}
	return replaced
}

// replaceIn replaces the short forms in one value of a field.
func replaceIn(f protoreflect.FieldDescriptor, value any, set func(any)) bool {
	switch value := value.(type) {
	case map[string]any:
		return f.Message() != nil && replaceForms(value, f.Message())
	case string:
		if f.Message() != nil && f.Message().FullName() == durationName {
			d, err := time.ParseDuration(value)
			if err == nil {
				set(strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s")
			}
			return err == nil
		}
		if secondFields[f.JSONName()] != "" {
			seconds, whole := WholeSeconds(value)
			if whole {
				set(json.Number(strconv.FormatUint(uint64(seconds), 10)))
			}
			return whole
		}
		if f.Enum() == nil {
			return false
		}
		long := enumPrefix(f.Enum()) + strings.ToUpper(value)
		if f.Enum().Values().ByName(protoreflect.Name(long)) == nil {
			return false
		}
		set(long)
		return true
	}
	return false
}

// WholeSeconds returns the seconds of a time such as "1m30s". It returns false if the text is no such time, or not
// whole seconds.
func WholeSeconds(text string) (seconds uint32, ok bool) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d%time.Second != 0 || d/time.Second > math.MaxUint32 {
		return 0, false
	}
	return uint32(d / time.Second), true
}

// enumPrefix returns what the names of all values of an enum begin with: for PRIORITY_CLASS_BATCH it is
// PRIORITY_CLASS_.
func enumPrefix(e protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(e.Values().Get(0).Name()), "UNSPECIFIED")
}

// acceptedNames lists the short names of an enum's values for an error text, after the name of the field:
// `priority: "urgent"`.
func acceptedNames(field string, into proto.Message) string {
	name, _, _ := strings.Cut(field, ":")
	e := enumOf(name, into.ProtoReflect().Descriptor(), nil)
	if e == nil {
		return ""
	}
	var names []string
	for i := 1; i < e.Values().Len(); i++ {
		names = append(names, strings.ToLower(strings.TrimPrefix(string(e.Values().Get(i).Name()), enumPrefix(e))))
	}
	return "; send one of " + strings.Join(names, ", ")
}

// enumOf returns the type of the enum field with the name, in a message or in one that it contains; nil if
// there is no such field.
func enumOf(
	name string, of protoreflect.MessageDescriptor, within []protoreflect.FullName,
) protoreflect.EnumDescriptor {
	if slices.Contains(within, of.FullName()) {
		return nil
	}
	within = append(within, of.FullName())
	for i := range of.Fields().Len() {
		f := of.Fields().Get(i)
		if f.Enum() != nil && (f.TextName() == name || f.JSONName() == name) {
			return f.Enum()
		}
		if f.Message() != nil {
			if e := enumOf(name, f.Message(), within); e != nil {
				return e
			}
		}
	}
	return nil
}
