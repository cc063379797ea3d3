//! The functions and types that expressions may name.

use super::types::NAMES;

/// Known functions: those of the language, and of Kubernetes' libraries as far as they are registered.
pub(super) const FUNCTIONS: &[&str] = &[
    "add", "asApproximateFloat", "asInteger", "base64.decode", "base64.encode", "bytes", "charAt", "cidr", "compareTo",
    "contains", "containsCIDR", "containsIP", "distinct", "double", "duration", "dyn", "endsWith", "family", "find",
    "findAll", "first", "flatten", "format", "format.named", "getDate", "getDayOfMonth", "getDayOfWeek",
    "getDayOfYear", "getEscapedPath", "getFullYear", "getHost", "getHostname", "getHours", "getMilliseconds",
    "getMinutes", "getMonth", "getPort", "getQuery", "getScheme", "getSeconds", "hasValue", "indexOf", "int", "ip",
    "ip.isCanonical", "isCIDR", "isGlobalUnicast", "isGreaterThan", "isIP", "isInteger", "isLessThan",
    "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isQuantity", "isSemver", "isSorted", "isURL",
    "isUnspecified", "join", "jsonpatch.escapeKey", "last", "lastIndexOf", "lists.range", "lowerAscii", "major",
    "masked", "matches", "math.abs", "math.ceil", "math.floor", "math.greatest", "math.isFinite", "math.isInf",
    "math.isNaN", "math.least", "math.round", "math.sign", "math.sqrt", "math.trunc", "max", "min", "minor",
    "optional.none", "optional.of", "optional.ofNonZeroValue", "or", "orValue", "patch", "prefixLength", "quantity",
    "replace", "reverse", "semver", "sets.contains", "sets.equivalent", "sets.intersects", "sign", "size", "slice",
    "sort", "split", "startsWith", "string", "strings.quote", "sub", "substring", "sum", "timestamp", "trim", "type",
    "uint", "upperAscii", "url", "validate", "value",
];

/// The first words of functions that have two.
pub(super) const LIBRARIES: [&str; 9] =
    ["base64", "format", "ip", "jsonpatch", "lists", "math", "optional", "sets", "strings"];

/// Returns `true` if a name is a type, or the first word of a function.
pub(super) fn is_type(name: &str) -> bool {
    NAMES.contains(&name) || LIBRARIES.contains(&name)
}
