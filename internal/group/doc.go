// Package group ends processes together with what they have started.
package group
