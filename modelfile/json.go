package modelfile

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Unmarshal decodes JSON. Its errors contain only the offset and the name of the field of into.
// They contain nothing of the text, which may come from another file.
func Unmarshal(b []byte, into any) error { return RedactJSONError(json.Unmarshal(b, into)) }

// RedactJSONError replaces an error of encoding/json by one that contains nothing of the text.
func RedactJSONError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("field %s has a value of the wrong type, at byte %d", kind.Field, kind.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("a value of the wrong type at byte %d", kind.Offset)
	}
	return errors.New("invalid JSON")
}
