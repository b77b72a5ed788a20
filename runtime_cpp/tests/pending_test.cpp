#include "loaded.h"
