package simtest

import "reflect"

// insides is how many pointers, interfaces and structs Inside looks behind.
const insides = 12

// Inside is the first field of that name in a value, wherever it stands: what an option has come to
// that no result may show. There is none where it is not valid.
func Inside(of any, name string) reflect.Value { return inside(reflect.ValueOf(of), name, insides) }

func inside(v reflect.Value, name string, depth int) (found reflect.Value) {
	switch {
	case depth == 0:
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		return inside(v.Elem(), name, depth-1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == name {
				return v.Field(i)
			}
		}
		for i := 0; i < v.NumField() && !found.IsValid(); i++ {
			found = inside(v.Field(i), name, depth-1)
		}
	}
	return found
}
