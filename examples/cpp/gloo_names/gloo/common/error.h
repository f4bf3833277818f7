// Gloo, as far as ProcessGroupGloo.hpp names it: torch's packages leave its headers out, and who
// only makes such a group and calls it needs no more.
#pragma once
