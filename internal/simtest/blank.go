package simtest

import "reflect"

// Blank makes zero what somebody can write to who was handed a value: the elements of its slices,
// what its pointers point to, and so on. It returns how many numbers and texts it has blanked.
func Blank(of any) int { return blank(reflect.ValueOf(of)) }

func blank(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			n += blank(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += blank(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			n = blank(v.Elem())
		}
	default:
		if v.CanSet() {
			v.SetZero()
			n = 1
		}
	}
	return n
}
