//! Tests of the testkit, and of the whole product with it.

mod real_env;
